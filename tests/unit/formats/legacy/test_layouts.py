"""What each dialect writes, and what tells dialects apart."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.layouts import LAYOUTS, IdForm, dialect_layout, refined
from frazil.formats.legacy.records import ManifestRecord
from tests.unit.formats.legacy.samples import MESSAGE_DIALECTS


def test_manifests_tell_what_snapshots_do_not() -> None:
    plain = ManifestRecord({}, Dialect.G3B)
    later = ManifestRecord({}, Dialect.G3B, has_checksums=True)
    assert refined(Dialect.G3B, [plain, later]) is Dialect.G3C
    assert refined(Dialect.G3B, [plain]) is Dialect.G3B
    assert refined(Dialect.G3I, [later]) is Dialect.G3I


def test_maps_beside_other_manifests_are_a_mixture() -> None:
    maps, texts = ManifestRecord({}, Dialect.G2_MAPS), ManifestRecord({}, Dialect.G2_MAPS_TEXT)
    lists = ManifestRecord({}, Dialect.G2_MSGPACK)
    for dialect in (Dialect.G2_MAPS, Dialect.G2_MAPS_TEXT):
        assert refined(dialect, [maps, texts]) is dialect
        assert refined(dialect, []) is dialect
        assert refined(dialect, [maps, lists]) is Dialect.G2_MIXED
    assert refined(Dialect.G2_MSGPACK, [maps]) is Dialect.G2_MSGPACK


@pytest.mark.parametrize(
    "dialect", [each for each in Dialect if each not in MESSAGE_DIALECTS], ids=str
)
def test_dialects_that_are_only_read_and_parquet_have_no_layout(dialect: Dialect) -> None:
    with pytest.raises(FormatError) as caught:
        dialect_layout(dialect)
    assert caught.value.kind is ErrorKind.SERIALIZATION
    assert caught.value.facts["dialect"] == dialect.value


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_layouts_agree_with_what_is_known_of_their_dialect(dialect: Dialect) -> None:
    layout = dialect_layout(dialect)
    assert (layout.log_fields > 0) == dialect.has_logs
    assert layout.checksums == dialect.has_checksums
    assert layout.is_json == dialect.is_json
    if dialect.generation is LegacyGeneration.G3:
        assert layout.ids is not IdForm.NUMBERS


def test_no_two_dialects_of_a_generation_are_written_alike() -> None:
    """Else a repository could not be continued in the one it uses."""
    for generation in LegacyGeneration:
        found = [layout for each, layout in LAYOUTS.items() if each.generation is generation]
        assert all(found.count(layout) == 1 for layout in found)


def test_only_manifests_were_compressed_at_first() -> None:
    layout = dialect_layout(Dialect.G3D)
    assert layout.wrapping_of(FileKind.MANIFEST).compressed
    for kind in (FileKind.SNAPSHOT, FileKind.TRANSACTION_LOG, FileKind.ATTRIBUTES):
        assert not layout.wrapping_of(kind).compressed
        assert dialect_layout(Dialect.G3E).wrapping_of(kind).compressed
