"""What links, external files and virtual datasets of HDF5 lead to, and attributes as JSON."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

from frazil.errors import InvalidInputError
from frazil.ingestion.hdf_files import DEPTH, HdfFiles, attributes_of, open_hdf
from frazil.ingestion.records import InputFile
from frazil.ingestion.sources import as_url


def opened(path: Path, *allowed: Path) -> HdfFiles:
    prefixes = tuple(f"file://{each}/" for each in allowed)
    return HdfFiles(InputFile(as_url(path), allowed=prefixes))


def other(folder: Path) -> Path:
    """A file of a folder of its own, with a variable in a group."""
    (folder / "others").mkdir()
    with h5py.File(folder / "others" / "b.h5", "w") as file:
        file["inner/v"] = np.arange(4)
    return folder / "others"


def test_what_is_no_hdf5_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"rubbish")
    with pytest.raises(InvalidInputError, match=r"not a readable HDF5 file.*a\.h5"):
        open_hdf(as_url(tmp_path / "a.h5"), {})


# --- links ---


def test_paths_are_followed_through_links_of_the_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/deep/v"] = 5
        file["g/near"] = h5py.SoftLink("deep/v")
        file["far"] = h5py.SoftLink("/g/near")
        file["gone"] = h5py.SoftLink("/nowhere")
    with opened(tmp_path / "a.h5") as files:
        for path in ("g/deep/v", "/g//near", "./far"):
            found = files.find(path)
            assert found is not None
            assert found.item[()] == 5
        for path in ("gone", "g/deep/v/below", "no"):
            assert files.find(path) is None
        assert [name for name, _ in files.members(files.root)] == ["far", "g"]


def test_links_that_lead_to_each_other_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = h5py.SoftLink("w")
        file["w"] = h5py.SoftLink("v")
    told = pytest.raises(InvalidInputError, match="too many other links, or to itself")
    with opened(tmp_path / "a.h5") as files, told:
        files.find("v")


def test_links_are_followed_so_far_and_no_further(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["0"] = 7
        for number in range(1, DEPTH + 1):
            file[str(number)] = h5py.SoftLink(str(number - 1))
    with opened(tmp_path / "a.h5") as files:
        assert files.find(str(DEPTH - 1)) is not None
        with pytest.raises(InvalidInputError, match="too many"):
            files.find(str(DEPTH))


def test_another_file_is_opened_only_where_that_is_allowed(tmp_path: Path) -> None:
    folder = other(tmp_path)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = h5py.ExternalLink("others/b.h5", "/inner/v")
    told = pytest.raises(InvalidInputError, match=r"others/b\.h5, which was not allowed")
    with opened(tmp_path / "a.h5") as files, told:
        files.find("v")
    with opened(tmp_path / "a.h5", folder) as files:
        found = files.find("v")
        assert found is not None
        assert found.url == as_url(folder / "b.h5")
        assert found.item[()].tolist() == [0, 1, 2, 3]


# --- values in other files ---


def test_raw_files_are_named_with_their_ranges(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    places = [("others/0.raw", 4, 16), ("others/1.raw", 0, 16)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", shape=(8,), dtype="<i4", external=places)
    with opened(tmp_path / "a.h5", tmp_path / "others") as files:
        found = files.find("v")
        assert found is not None
        expected = [(as_url(tmp_path / name), start, size) for name, start, size in places]
        assert files.raw_segments(found) == expected
    with opened(tmp_path / "a.h5") as files:
        found = files.find("v")
        assert found is not None
        with pytest.raises(InvalidInputError, match="was not allowed"):
            files.raw_segments(found)


@pytest.mark.parametrize(
    ("file", "name", "told"),
    [
        ("others/b.h5", "inner/v", ""),
        ("others/b.h5", "none", "'none' of a virtual dataset is not in"),
        ("others/b.h5", "inner", "'inner' of a virtual dataset is not in"),
        ("others/c.h5", "v", "it leads to another file"),
        ("away/b.h5", "v", "was not allowed"),
    ],
)
def test_the_parts_of_a_virtual_dataset_must_be_there(
    tmp_path: Path, file: str, name: str, told: str
) -> None:
    folder = other(tmp_path)
    layout = h5py.VirtualLayout(shape=(4,), dtype="<i8")
    layout[:] = h5py.VirtualSource(str(tmp_path / file), name, shape=(4,))
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_virtual_dataset("v", layout)
    with opened(tmp_path / "a.h5", folder) as files:
        found = files.find("v")
        assert found is not None
        if not told:
            files.require_sources(found)
            return
        with pytest.raises(InvalidInputError, match=told):
            files.require_sources(found)


def test_virtual_datasets_with_patterns_of_files_are_refused(tmp_path: Path) -> None:
    grown = h5s.create_simple((4,), (h5s.UNLIMITED,))
    grown.select_hyperslab((0,), (h5s.UNLIMITED,), (4,), (4,))
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_virtual(grown, b"others/%b.h5", b"v", h5s.create_simple((4,)))
    with h5py.File(tmp_path / "a.h5", "w") as made:
        h5d.create(made.id, b"v", h5t.NATIVE_INT64, grown, plist)
    told = pytest.raises(InvalidInputError, match="with patterns")
    with opened(tmp_path / "a.h5", tmp_path) as files, told:
        found = files.find("v")
        assert found is not None
        files.require_sources(found)


# --- attributes ---


def test_attributes_become_json_and_those_that_cannot_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        attrs = file.create_dataset("v", data=0).attrs
        attrs["text"] = "ä"
        attrs["latin"] = np.bytes_(b"caf\xe9")
        attrs["one"] = np.array([5], "i4")
        attrs["many"] = np.array([1.5, 2.5], "f4")
        attrs["texts"] = np.array(["a", "ü"], dtype=h5py.string_dtype())
        attrs["nothing"] = h5py.Empty("f4")
        attrs["large"] = np.uint64(2**63 + 5)
        attrs["_FillValue"] = 9
        attrs["complex"] = np.complex64(1 + 2j)
        attrs["pointer"] = file["v"].ref
        found, left_out = attributes_of(file["v"])
    assert found == {
        "text": "ä",
        "latin": "caf\ufffd",
        "one": 5,
        "many": [1.5, 2.5],
        "texts": ["a", "ü"],
        "nothing": "",
        "large": 2**63 + 5,
    }
    assert sorted(left_out) == ["complex", "pointer"]
