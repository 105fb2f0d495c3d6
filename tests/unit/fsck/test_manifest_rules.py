"""The rules of a manifest, what arrays say of it, and whether its chunks can be decoded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.formats.manifest import encode_manifest
from frazil.fsck.files import read_manifest_file
from frazil.fsck.findings import Code, Finding
from frazil.fsck.manifest_rules import (
    SHOWN_LOCATIONS,
    check_manifest_file,
    decode_chunks,
    decoded_bytes,
)
from frazil.fsck.snapshot_rules import ManifestUse
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import Coordinates, Extents
from frazil.statistics.files import read_checksums
from frazil.storage.assets import chunk_key, manifest_key
from frazil.storage.virtual import Containers
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document
from tests.unit.fsck.samples import PREFIX, Sick, config, files_of

NAME, LINE = ManifestId(bytes(range(12))), NodeId(b"line....")
KEY = manifest_key(NAME)
CONTAINERS = Containers(config())


def native(length: int = 8) -> NativeRef:
    return NativeRef(ChunkId.random(), 0, length)


def blob_of(*refs: tuple[Coordinates, ChunkRef]) -> bytes:
    """A manifest of one array."""
    table = ChunkTable.from_refs(len(refs[0][0]), refs)
    return encode_manifest(NAME, {LINE: table}, spec=2)


def use(extents: Extents, *grid: int, size: int = -1, count: int = -1) -> ManifestUse:
    return ManifestUse(LINE, "/line", extents, grid or (8,), size, count)


def found(blob: bytes | None, *uses: ManifestUse) -> list[Finding]:
    """What is wrong with a manifest."""
    read = None if blob is None else read_manifest_file(blob, KEY)
    findings = [*check_manifest_file(NAME, read, uses, CONTAINERS)]
    assert all(each.target == KEY for each in findings)
    return findings


def test_a_manifest_that_is_gone_is_told_with_an_array_that_needs_it() -> None:
    other = replace(use(((0, 1),)), path="/a")
    assert found(None, use(((0, 1),)), other) == [Finding(Code.MANIFEST_MISSING, KEY, path="/a")]
    assert found(None) == [Finding(Code.MANIFEST_MISSING, KEY)]


@pytest.mark.parametrize(
    ("more", "code"),
    [(0, None), (-1, Code.MANIFEST_SIZE), (1, Code.MANIFEST_SIZE_LONG)],
)
def test_readers_must_fetch_the_whole_file(more: int, code: Code | None) -> None:
    blob = blob_of(((0,), native()))
    findings = found(blob, use(((0, 1),), size=len(blob) + more, count=1))
    assert [each.code for each in findings] == ([] if code is None else [code])


def test_everything_is_fetched_where_no_size_is_recorded() -> None:
    [finding] = found(blob_of(((0,), native())), use(((0, 1),), size=0))
    assert finding.code == Code.MANIFEST_SIZE_LONG


def test_snapshots_that_record_different_numbers_are_all_told() -> None:
    blob = blob_of(((0,), native()), ((1,), native()))
    uses = [use(((0, 2),), count=count) for count in (2, 3, 1, -1)]
    assert [(each.code, each.detail) for each in found(blob, *uses)] == [
        (Code.MANIFEST_COUNT, "it has 2, recorded are 1"),
        (Code.MANIFEST_COUNT, "it has 2, recorded are 3"),
    ]


def test_a_box_must_hold_all_chunks_and_should_hold_no_more() -> None:
    blob = blob_of(((2,), native()), ((3,), native()))
    assert found(blob, use(((2, 4),))) == []
    [hidden] = found(blob, use(((2, 3),)))
    assert (hidden.code, hidden.chunks, hidden.references) == (Code.EXTENTS_COVER, ((3,),), 1)
    [loose] = found(blob, use(((2, 5),)))
    assert (loose.code, loose.detail) == (Code.EXTENTS_LOOSE, "covered is [2:5], held [2:4]")


def test_a_chunk_of_an_array_without_axes_or_cells_is_inside() -> None:
    assert found(blob_of(((), native()))) == []
    assert found(blob_of(((0,), native())), use(((0, 1),), 0)) == []
    scalar = ManifestUse(LINE, "/line", (), (), -1, -1)
    assert found(blob_of(((), native())), scalar) == []


def test_chunks_of_which_a_rule_is_broken_are_named_and_counted() -> None:
    blob = blob_of(*(((place,), native(0)) for place in range(6)))
    outside, empty = found(blob, use(((0, 6),), 1))
    assert (outside.code, outside.references) == (Code.CHUNK_OUTSIDE_GRID, 5)
    assert outside.chunks == ((1,), (2,), (3,), (4,))
    assert (empty.code, empty.references) == (Code.CHUNK_EMPTY, 6)


def test_an_array_that_is_not_in_its_manifest_is_told() -> None:
    other = replace(use(((0, 1),)), node_id=NodeId.random())
    assert [each.code for each in found(blob_of(((0,), native())), other)] == [Code.MANIFEST_ARRAY]


def virtual(*locations: str) -> bytes:
    return blob_of(*(((n,), VirtualRef(text, 0, 1)) for n, text in enumerate(locations)))


def test_locations_must_be_covered_by_a_container_and_are_shown_without_secrets() -> None:
    assert found(virtual(f"{PREFIX}a.bin")) == []
    [finding] = found(virtual(f"{PREFIX}a.bin", "https://host/b?token=geheim"))
    assert (finding.code, finding.detail) == (Code.CONTAINER_UNDECLARED, "https://host/b?****")
    [finding] = found(virtual(f"{PREFIX}a.bin", "no url at all"))
    assert finding.code == Code.LOCATION_INVALID
    assert "no url at all" in finding.detail


@pytest.mark.parametrize("form", ["s3://elsewhere/{}", "no url {}"])
def test_bad_locations_are_bounded(form: str) -> None:
    many = virtual(*(form.format(number) for number in range(SHOWN_LOCATIONS + 1)))
    assert len(found(many)) == SHOWN_LOCATIONS


# --- the bytes of chunks ---


def decoded(sick: Sick, refs: dict[int, ChunkRef], document: bytes) -> tuple[int, list[Finding]]:
    """How many chunks of a manifest can be decoded, and what is wrong with the others."""
    table = ChunkTable.from_refs(1, [((place,), ref) for place, ref in refs.items()])
    sick.storage.put(KEY, encode_manifest(NAME, {LINE: table}, spec=sick.spec))
    context = context_of(sick.repository)
    wanted = {replace(use(((0, 8),)), document=document)}
    done = decode_chunks(
        context,
        files_of(sick.storage, sick.spec),
        NAME,
        wanted,
        read_checksums(context.place),
        virtual=False,
    )
    return done.chunks, done.findings


def test_chunks_must_have_the_bytes_of_their_shape(sick: Sick) -> None:
    document = array_document(16, chunks=(2,))
    assert decoded(sick, {0: InlineRef(b"ab"), 1: InlineRef(b"cd")}, document) == (2, [])
    count, [finding] = decoded(sick, {0: InlineRef(b"ab"), 1: InlineRef(b"cde")}, document)
    assert (count, finding.code, finding.target) == (1, Code.CHUNK_DAMAGED, KEY)
    assert (finding.path, finding.chunks) == ("/line", ((1,),))


def test_a_damaged_chunk_object_is_named_itself(sick: Sick) -> None:
    ref = native(3)
    sick.storage.put(chunk_key(ref.chunk_id), b"abc")
    _, [finding] = decoded(sick, {0: ref}, array_document(16, chunks=(2,)))
    assert finding.target == chunk_key(ref.chunk_id)


def test_chunks_that_are_not_at_hand_are_left_to_other_rules(sick: Sick) -> None:
    refs: dict[int, ChunkRef] = {0: native(2), 1: VirtualRef(f"{PREFIX}a.bin", 0, 2)}
    assert decoded(sick, refs, array_document(16, chunks=(2,))) == (0, [])


def test_chunks_too_large_or_of_unknown_codecs_are_left_alone(sick: Sick) -> None:
    huge = array_document(1 << 40, chunks=(1 << 37,))
    count, [finding] = decoded(sick, {0: InlineRef(b"ab")}, huge)
    assert (count, finding.code) == (0, Code.CHUNK_UNDECODED)
    assert "too large" in finding.detail
    secret = array_document(16, chunks=(2,), codecs=[{"name": "secret"}])
    count, [finding] = decoded(sick, {0: InlineRef(b"ab")}, secret)
    assert (count, finding.code, finding.path) == (0, Code.CHUNK_UNDECODED, "/line")


def test_decoded_bytes_are_guessed_from_the_largest_use() -> None:
    def of(count: int, document: bytes) -> ManifestUse:
        return replace(use(((0, 8),), count=count), document=document)

    small, large = array_document(16, chunks=(2,)), array_document(16, chunks=(4,))
    assert decoded_bytes({of(3, small)}) == 6
    assert decoded_bytes({of(3, small), of(3, large)}) == 12
    assert decoded_bytes({of(-1, small), of(3, b"no document")}) == 0
    assert decoded_bytes(()) == 0
