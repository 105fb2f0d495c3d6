"""kerchunk references: what they point to, what is inline, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.records import ScanTask
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url
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
