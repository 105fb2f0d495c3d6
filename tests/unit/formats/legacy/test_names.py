"""Ids and names of the older generations."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy import refs
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.names import (
    base64_name,
    from_base64_name,
    from_crockford,
    id_of_name,
    node_number,
    numbered_node,
    parse_sequence,
    plain_name,
    remember,
    sequence_name,
    widen_id,
)
from frazil.formats.legacy.refs import RefKey, RefPrefix, parse_ref_key
from frazil.ids import ChunkId, NodeId, SnapshotId, crockford

G1, G2, G3 = LegacyGeneration


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (bytes(range(8)), "000G40R40M30E"),
        (bytes(range(12)), "000G40R40M30E209185G"),
        (bytes(range(16)), "000G40R40M30E209185GR38E1W"),
        (b"\xff" * 12, "ZZZZZZZZZZZZZZZZZZZG"),
        (b"\xff" * 16, "ZZZZZZZZZZZZZZZZZZZZZZZZZW"),
        (bytes.fromhex("df8e6b2445b63c53f1ee9902"), "VY76P925PRY57WFEK410"),
    ],
)
def test_bytes_have_one_crockford_text(raw: bytes, text: str) -> None:
    assert crockford(raw) == text
    assert from_crockford(text, len(raw)) == raw


@pytest.mark.parametrize(
    "text",
    ["VY76P925PRY57WFEK411", "vy76p925pry57wfek410", "VY76P925PRY57WFEK41", "VY76P925PRY57WFEK41U"],
)
def test_stored_texts_must_be_canonical(text: str) -> None:
    assert from_crockford(text, 12) is None


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "ZZZZZZZZ"),
        (1, "ZZZZZZZY"),
        (2, "ZZZZZZZX"),
        (3, "ZZZZZZZW"),
        (4, "ZZZZZZZV"),
        (5, "ZZZZZZZT"),
        (31, "ZZZZZZZ0"),
        (32, "ZZZZZZYZ"),
        (33, "ZZZZZZYY"),
        (100, "ZZZZZZWV"),
        (1000, "ZZZZZZ0Q"),
        (1024, "ZZZZZYZZ"),
        (1000000, "ZZZZ1FDZ"),
        (2**40 - 2, "00000001"),
        (2**40 - 1, "00000000"),
    ],
)
def test_sequence_names(number: int, name: str) -> None:
    assert sequence_name(number) == name
    assert parse_sequence(name) == number


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "ZZZZZZZZZZZZY"),
        (1, "ZZZZZZZZZZZZW"),
        (2, "ZZZZZZZZZZZZT"),
        (16, "ZZZZZZZZZZZYY"),
        (100, "ZZZZZZZZZZZSP"),
    ],
)
def test_long_sequence_names(number: int, name: str) -> None:
    assert sequence_name(number, length=13) == name
    assert parse_sequence(name) == number


def test_a_full_branch_is_refused() -> None:
    with pytest.raises(FormatError, match="no more room"):
        sequence_name(2**40)


@given(st.integers(0, 2**40 - 2))
def test_newer_steps_sort_first(number: int) -> None:
    assert sequence_name(number + 1) < sequence_name(number)


@pytest.mark.parametrize("stem", ["", "ZZZZZZZ", "zzzzzzzz", "ZZZZZZZU", "ref", "ZZZZZZZZZZZZZ"])
def test_other_files_are_no_steps(stem: str) -> None:
    assert parse_sequence(stem) is None


def test_ids_of_sixteen_bytes_are_known_by_twelve() -> None:
    raw = bytes(range(16))
    expected = ChunkId(raw[:12])
    assert id_of_name(ChunkId, "000G40R40M30E209185GR38E1W") == expected
    assert id_of_name(ChunkId, "000G40R40M30E209185GR38E1W.parquet") == expected
    assert id_of_name(ChunkId, raw.hex()) == expected
    assert id_of_name(ChunkId, "00010203-0405-0607-0809-0a0b0c0d0e0f") == expected
    assert id_of_name(ChunkId, base64_name(raw) + ".parquet") == expected


def test_other_names_are_known_by_their_digest() -> None:
    digest = hashlib.sha256(b"temperature-2024").digest()
    assert id_of_name(SnapshotId, "temperature-2024") == SnapshotId(digest[:12])


def test_base64_names() -> None:
    assert base64_name(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw=="
    assert from_base64_name("AAECAwQFBgcICQoLDA0ODw==.msgpack") == bytes(range(16))
    assert from_base64_name("AAECAwQFBgcICQoLDA0ODw=.") is None


@given(st.binary(min_size=12, max_size=12))
def test_names_of_our_own_ids_lead_back(raw: bytes) -> None:
    id = SnapshotId(raw)
    assert widen_id(raw)[:12] == raw
    for generation in (G1, G2):
        assert id_of_name(SnapshotId, plain_name(generation, "manifests", id)) == id
    assert plain_name(G3, "chunks", id) == str(id)


def test_names_that_lead_to_one_id_are_refused() -> None:
    names: dict[ChunkId, str] = {}
    id = ChunkId(bytes(12))
    remember(names, G2, "chunks", id, "0" * 26, "m/x")
    with pytest.raises(FormatError, match="one id") as caught:
        remember(names, G2, "chunks", id, "0" * 24 + "8R", "m/x")
    assert caught.value.facts["key"] == "m/x"


def test_plain_names_need_no_memory() -> None:
    names: dict[ChunkId, str] = {}
    id = ChunkId(bytes(range(12)))
    remember(names, G1, "chunks", id, plain_name(G1, "chunks", id), "i/x")
    assert names == {}


def test_numbers_of_nodes() -> None:
    assert numbered_node(258) == NodeId(b"\0\0\0\0\0\0\1\2")
    assert node_number(numbered_node(2**32 - 1)) == 2**32 - 1
    with pytest.raises(FormatError, match="has no number"):
        node_number(NodeId(b"\1" * 8))


@pytest.mark.parametrize(
    ("generation", "key", "expected"),
    [
        (G3, "refs/branch.main/ZZZZZZZY.json", RefKey("branch", "main", RefPrefix.DOT, 1)),
        (G3, "refs/branch:main/ZZZZZZZZ.json", RefKey("branch", "main", RefPrefix.COLON, 0)),
        (
            G3,
            "refs/branch:main/ZZZZZZZZZZZZW.json",
            RefKey("branch", "main", RefPrefix.COLON, 1, 13),
        ),
        (G3, "refs/tag.it works!/ref.json", RefKey("tag", "it works!", RefPrefix.DOT)),
        (
            G3,
            "refs/tag.old/ref.json.deleted",
            RefKey("tag", "old", RefPrefix.DOT, is_tombstone=True),
        ),
        (G3, "refs/branch.main/ref.json", None),
        (G3, "refs/branch.main/", None),
        (G3, "snapshots/x", None),
        (G2, "r/main/ZZZZZZZZ.json", RefKey("branch", "main", RefPrefix.NONE, 0)),
        (G2, "r/v1.json", RefKey("tag", "v1", RefPrefix.NONE)),
        (G2, "r/.json", None),
        (G2, "r/tag:v1/ref.json", RefKey("tag", "v1", RefPrefix.COLON)),
        (
            G2,
            "r/branch:main/ZZZZZZZZZZZZY.json",
            RefKey("branch", "main", RefPrefix.COLON, 0, 13),
        ),
    ],
)
def test_keys_of_refs(generation: LegacyGeneration, key: str, expected: RefKey | None) -> None:
    assert parse_ref_key(generation, key, encoded=False) == expected


@given(
    st.sampled_from(refs.LAYOUTS),
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1),
    st.integers(0, 2**40 - 1),
    st.booleans(),
)
def test_keys_of_refs_lead_back(
    layout: refs.RefLayout, name: str, number: int, encoded: bool
) -> None:
    if name in (".", "..") or name.endswith(".json"):
        return
    layout = refs.RefLayout(
        layout.generation, layout.prefix, layout.sequence_length, encoded=encoded
    )
    if layout.prefix is RefPrefix.NONE and name.startswith(("branch", "tag")):
        return  # the two layouts of G2 share a folder
    if layout.prefix is RefPrefix.NONE:
        number %= refs.MOST_STEPS  # larger ones could be the ends of tags
    found = parse_ref_key(layout.generation, layout.branch_key(name, number), encoded=encoded)
    assert found == RefKey("branch", name, layout.prefix, number, layout.sequence_length)
    found = parse_ref_key(layout.generation, layout.tag_key(name), encoded=encoded)
    assert found == RefKey("tag", name, layout.prefix)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb"])
def test_names_no_ref_can_have(name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        refs.G3_DOT.branch_folder(name)
    assert caught.value.kind is ErrorKind.INVALID_REF_NAME


def test_a_branch_cannot_look_like_a_tag() -> None:
    with pytest.raises(InvalidInputError, match="are tags"):
        refs.G2_SEED.branch_folder("x.json")


def test_tags_of_g2_cannot_be_deleted() -> None:
    with pytest.raises(InvalidInputError) as caught:
        refs.G2_SEED.tombstone_key("v1")
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE
    assert refs.G3_DOT.tombstone_key("v1") == "refs/tag.v1/ref.json.deleted"
