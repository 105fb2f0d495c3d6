"""What users ask of an ingest is checked before a file is opened."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.plans import IngestMode
from frazil.ingestion.request import IngestOptions, IngestRequest, parse_ingest


def parsed(**options: object) -> IngestRequest:
    return parse_ingest("a.nc", "main", IngestOptions(**options))  # type: ignore[typeddict-item]


def test_without_options_files_are_referred_to_and_what_is_doubtful_is_told() -> None:
    found = parsed()
    assert (found.files, found.branch, found.group) == ("a.nc", "main", "")
    assert (found.wanted.mode, found.on_error, found.gaps) == (IngestMode.VIRTUAL, "fail", "tell")
    assert found.refused_warnings == {"grid-mapping"}
    assert (found.load, found.drop, found.allow, found.wanted.concat_dims) == ((), (), (), ())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "virtaul"}, "did you mean 'virtual'"),
        ({"on_error": "ignore"}, "on_error is 'ignore', and can be fail, skip"),
        ({"gaps": True}, "gaps is True, and can be tell, refuse"),
        ({"grid_mapping": "skip"}, "grid_mapping is 'skip'"),
        ({"format": "hdf6"}, "there are hdf5"),
        ({"compressor": "zip"}, "compressor"),
        ({"chunks": {"time": 0}}, "length 0 along 'time'"),
        ({"chunks": {"time": -2}}, "-1 means all of it"),
    ],
)
def test_options_that_there_are_not_are_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        parsed(**options)


def test_one_name_may_stand_for_a_list_of_one() -> None:
    found = parsed(load="a", drop=["b", "c"], allow="/data", concat_dim="time")
    assert (found.load, found.drop, found.allow) == (("a",), ("b", "c"), ("/data",))
    assert found.wanted.concat_dims == ("time",)
    assert parsed(concat_dim=["x", "y"]).wanted.concat_dims == ("x", "y")


def test_what_is_wanted_of_arrays_is_passed_on() -> None:
    wanted = parsed(
        mode="native",
        chunks={"time": -1},
        compressor="blosc:lz4:5",
        checksum=True,
        materialize=True,
    ).wanted
    assert (wanted.mode, wanted.chunks) == (IngestMode.NATIVE, {"time": -1})
    assert (wanted.compressor, wanted.checksum, wanted.materialize) == ("blosc:lz4:5", True, True)
    assert parsed(chunks=None, compressor=None).wanted.chunks == {}


def test_warnings_forbid_to_go_on_where_they_are_to_be_refused() -> None:
    assert parsed(gaps="refuse").refused_warnings == {"gap", "grid-mapping"}
    assert parsed(grid_mapping="tell").refused_warnings == frozenset()


def test_a_request_that_is_shown_shows_no_secret() -> None:
    found = parsed(source_options={"secret_access_key": "swordfish", "region": "eu"})
    assert "swordfish" not in repr(found)
    assert found.source_options["secret_access_key"] == "swordfish"
