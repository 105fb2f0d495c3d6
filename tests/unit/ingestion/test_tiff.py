"""What a TIFF file has besides its first image is told; the corpus of odd files has the pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from frazil.ingestion.records import FileScan, ScanFailure, ScanTask
from frazil.ingestion.scan import _scanned
from frazil.ingestion.sources import as_url
from tests.support.archive import seen, take

IMAGE = np.arange(40 * 48, dtype="u2").reshape(40, 48)


@pytest.mark.parametrize(
    ("sizes", "inside", "told"),
    [
        ((1,), 0, ()),
        ((1, 1, 1), 0, ("2 further images are not taken",)),  # pages
        ((1, 2, 4), 0, ("2 further images are not taken",)),  # pages of other sizes
        ((1, 2, 4), 2, ("2 further images are not taken",)),  # overviews below the first
    ],
)
def test_further_images_are_told(
    tmp_path: Path, sizes: tuple[int, ...], inside: int, told: tuple[str, ...]
) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        for number, size in enumerate(sizes):
            below = {"subifds": inside} if inside and not number else {}
            file.write(IMAGE[::size, ::size], tile=(16, 16), **below)  # type: ignore[arg-type]
    found = _scanned({}, ScanTask(as_url(path)))
    assert isinstance(found, FileScan)
    assert found.notes == told
    assert found["band_data"].shape == IMAGE.shape


def test_an_image_with_a_depth_is_refused_as_that(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.stack([IMAGE] * 16), tile=(16, 16, 16))
    found = _scanned({}, ScanTask(as_url(path)))
    assert isinstance(found, ScanFailure)
    assert "several planes" in found.error


@pytest.mark.parametrize("settings", [{"truncate": True}, {"truncate": True, "imagej": True}, {}])
def test_images_that_only_the_first_one_tells_of_are_told(
    tmp_path: Path, settings: dict[str, bool]
) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.stack([IMAGE] * 3), photometric="minisblack", **settings)  # type: ignore[arg-type]
    found = _scanned({}, ScanTask(as_url(path)))
    assert isinstance(found, FileScan)
    assert found.notes == ("2 further images are not taken",)
    assert found["band_data"].shape == IMAGE.shape


@pytest.mark.parametrize("text", ['{"shape": "no"}', "ImageJ=1\nimages=many\n", '{"shape": 3'])
def test_descriptions_that_make_no_sense_are_not_believed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, IMAGE, description=text, metadata=None)
    found = _scanned({}, ScanTask(as_url(path)))
    assert isinstance(found, FileScan)
    assert found.notes == ()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_packing_that_gdal_keeps_as_text_is_undone(tmp_path: Path, mode: str) -> None:
    items = {"scale_factor": "0.5", "add_offset": "1e1", "scale": "large"}
    words = "".join(f'<Item name="{name}">{text}</Item>' for name, text in items.items())
    text = f"<GDALMetadata>{words}</GDALMetadata>"
    tag = [(42112, "s", len(text) + 1, text, True)]
    values = np.arange(1024, dtype="<i2").reshape(32, 32)
    tifffile.imwrite(tmp_path / "a.tif", values, tile=(16, 16), extratags=tag)
    take(tmp_path / "r", tmp_path / "a.tif", wanted={"mode": mode})
    found = seen(tmp_path / "r").band_data
    np.testing.assert_array_equal(found.values, values * 0.5 + 10)


# --- where images lie ---


def image(
    path: Path,
    number: int,
    **options: Any,  # noqa: ANN401
) -> np.ndarray[Any, Any]:
    values = (np.arange(64 * 48).reshape(64, 48) + 1000 * number).astype("u2")
    place = (0.0, 0.0, 0.0, 500.0 + 480 * number, 1000.0, 0.0)
    tags = [(33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, place, True)]
    tifffile.imwrite(path, values, tile=(16, 16), extratags=tags, **options)
    return values


@pytest.mark.parametrize("mode", ["virtual", "native"])
@pytest.mark.parametrize("options", [{}, {"compression": "deflate"}], ids=["raw", "deflate"])
def test_images_lie_where_their_tags_say(
    tmp_path: Path, options: dict[str, Any], mode: str
) -> None:
    parts = [image(tmp_path / f"{number}.tif", number, **options) for number in range(2)]
    take(tmp_path / "repo", f"{tmp_path}/*.tif", wanted={"mode": mode})
    found = seen(tmp_path / "repo").band_data
    assert np.array_equal(found.values, np.concatenate(parts, axis=1))
    assert found.x.values[[0, -1]].tolist() == [505.0, 1455.0]
    assert found.y.values[[0, -1]].tolist() == [995.0, 365.0]


def test_images_are_stacked_along_a_new_dimension(tmp_path: Path) -> None:
    for number in range(3):
        tifffile.imwrite(tmp_path / f"{number}.tif", np.full((32, 32), number, "f4"), tile=(16, 16))
    take(tmp_path / "repo", f"{tmp_path}/*.tif", wanted={"concat_dims": ("day",)})
    found = seen(tmp_path / "repo").band_data
    assert found.dims == ("day", "y", "x")
    assert found.values[:, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("nodata", ["-9999", "nan", "300", "1e40", "none"])
def test_pixels_are_not_masked_by_a_value_they_cannot_have(tmp_path: Path, nodata: str) -> None:
    values = np.arange(20 * 24, dtype="u1").reshape(20, 24)
    file = tmp_path / "odd.tif"
    tifffile.imwrite(file, values, rowsperstrip=7, extratags=[(42113, "s", 0, nodata, True)])
    repo = tmp_path / "repo"
    report = take(repo, file, wanted={"mode": "native"})
    assert np.array_equal(seen(repo)["band_data"].values, values)
    assert "no data" in str(report)


def test_pixels_without_data_are_masked(tmp_path: Path) -> None:
    values = np.arange(20 * 24, dtype="f4").reshape(20, 24)
    values[3, 4] = np.float32("-3.4e38")
    file = tmp_path / "odd.tif"
    tifffile.imwrite(file, values, rowsperstrip=7, extratags=[(42113, "s", 0, "-3.4e38", True)])
    repo = tmp_path / "repo"
    take(repo, file, wanted={"mode": "native"})
    found = seen(repo)["band_data"].values
    assert np.isnan(found[3, 4])
    assert np.isnan(found).sum() == 1
    assert found[0, 0] == 0
