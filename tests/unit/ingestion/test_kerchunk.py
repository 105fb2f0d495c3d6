"""kerchunk references: what they point to, what is inline, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.kerchunk import scan_kerchunk_json, scan_kerchunk_parquet
from frazil.ingestion.records import InputFile, ParsedFile, ScanTask
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url, look
from tests.support.archive import seen, take
from tests.support.odd import kerchunk


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "not valid JSON"),
        ('{"a": 1}', "no kerchunk references"),
        ('{"version": 1, "gen": [1], "refs": {"v/.zarray": "{}"}}', "gen"),
        (
            '{"refs": {"v/.zarray": {"shape": [2], "chunks": [1], "dtype": "<i4"},'
            ' "v/7": ["file:///a", 0, 4]}}',
            "outside its array",
        ),
        ('{"refs": {"v/.zarray": "{}"}}', "damaged"),
        ('{"refs": {"v/.zarray": "base64:e30="}}', "'v/.zarray' are not valid JSON"),
        ('{"refs": {"zarr.json": "{}", "v/zarr.json": "{}"}}', "Zarr 3, which is not supported"),
        (
            '{"refs": {"g/v/.zarray": {"shape": [1], "chunks": [1], "dtype": "<i4"}}}',
            r"choose one of its groups \(g\)",
        ),
    ],
)
def test_references_that_are_none_are_told(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InvalidInputError, match=told):
        scan_file(ScanTask(as_url(tmp_path / "a.json")), {})


def test_a_damaged_chunk_inside_the_references_is_told_by_their_file(tmp_path: Path) -> None:
    file = kerchunk.write({"v/0": "abc", "v/1": "abc"}, tmp_path)
    told = rf"a chunk of 'v' cannot be decoded.*{file.name}"
    with pytest.raises(InvalidInputError, match=told):
        take(tmp_path / "repo", file, wanted={"mode": "native"})


def test_references_may_be_relative_and_use_templates(tmp_path: Path) -> None:
    refs = {"v/0": ["{{u}}", 0, 16], "v/1": ["others/data.bin", 16, 16]}
    file = kerchunk.write(refs, tmp_path, templates={"u": "others/data.bin"})
    report = take(tmp_path / "repo", file, allow=(str(tmp_path),))
    assert report.containers == (f"file://{tmp_path}/others/",)
    assert seen(tmp_path / "repo").v.values.tolist() == kerchunk.VALUES.tolist()


FIRST, SECOND = kerchunk.HALVES


def scanned(file: Path, group: str = "") -> ParsedFile:
    allowed = (f"file://{file.parent}/",)
    url = as_url(file)
    return scan_kerchunk_json(InputFile(url, (), group, allowed, look(url)))


def test_chunks_are_ranges_whole_files_or_bytes_of_their_own(tmp_path: Path) -> None:
    refs: dict[str, Any] = {"v/.zarray": kerchunk.meta(2), "v/0": FIRST}
    refs |= {"v/1": ["others/data.bin"], "v/2": "abcdefgh", "v/3": "base64:AQIDBAUGBwg="}
    (variable,) = scanned(kerchunk.write(refs, tmp_path)).variables
    found = variable.references
    assert found is not None
    assert found.index.tolist() == [0, 1, 2, 3]
    assert (found.offset.tolist(), found.length.tolist()) == ([0, 0, 0, 8], [16, 32, 8, 8])
    assert found.location.tolist() == [0, 0, -1, -1]
    assert found.inline == b"abcdefgh" + bytes(range(1, 9))


def test_chunks_that_no_reference_names_are_not_there(tmp_path: Path) -> None:
    (variable,) = scanned(kerchunk.write({"v/1": SECOND}, tmp_path)).variables
    assert variable.references is not None
    assert variable.references.index.tolist() == [1]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (["others/data.bin", -1, 16], "no known form"),
        (["others/data.bin", 0], "no known form"),
        (7, "no known form"),
        (["others/none.bin"], "is missing"),
        (["/etc/hostname", 0, 4], "was not allowed"),
        (["{{u}}", 0, 16], "template that cannot be filled in"),
        ("base64:!", "no base64"),
        ("", "a chunk of 'v' is empty"),
    ],
)
def test_a_reference_that_leads_nowhere_is_told(tmp_path: Path, value: object, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told) as refusal:
        scanned(kerchunk.write({"v/0": value, "v/1": SECOND}, tmp_path))
    assert "odd.json" in str(refusal.value)


def test_a_group_is_chosen_and_the_others_are_told(tmp_path: Path) -> None:
    inner = {"g/w/.zarray": kerchunk.meta(8), "g/w/0": ["others/data.bin"]}
    inner |= {"g/.zattrs": '{"title":"inner"}'}
    file = kerchunk.write({"v/0": FIRST, "v/1": SECOND, **inner}, tmp_path)
    outer = scanned(file)
    assert [each.name for each in outer.variables] == ["v"]
    assert outer.notes == ("arrays in groups that are not taken: g/w",)
    chosen = scanned(file, "/g/")
    assert [each.name for each in chosen.variables] == ["w"]
    assert chosen.attributes == '{"title":"inner"}'


def test_a_folder_without_records_is_no_kerchunk(tmp_path: Path) -> None:
    source = InputFile(as_url(tmp_path))
    with pytest.raises(InvalidInputError, match=r"no \.zmetadata"):
        scan_kerchunk_parquet(source)
    (tmp_path / ".zmetadata").write_text('{"metadata": {}}')
    with pytest.raises(InvalidInputError, match="no kerchunk references"):
        scan_kerchunk_parquet(source)
