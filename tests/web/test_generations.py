"""Repositories of every generation open in every page."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
import zarr

import frazil
from frazil.web import data, pages, reports
from frazil.web.library import Library
from frazil.web.settings import ServerSettings
from tests.support.generations import ALL, IDS, Spec
from tests.web.conftest import served
from tests.web.test_pages import ready, values

QUERY = "v=main&a=first&b=main&path=/a&index=0,1&run=1"


@pytest.mark.parametrize("spec", ALL, ids=IDS)
def test_every_page_opens(tmp_path: Path, spec: Spec) -> None:
    repo = frazil.Repository.create(str(tmp_path / "old"), spec_version=spec)
    for number in (1, 2):
        session = repo.writable_session("main")
        root = zarr.open_group(session.store, mode="a")
        array = root.require_array("a", shape=(4, 6), chunks=(2, 3), dtype="f4")
        array[:] = np.arange(24.0).reshape(4, 6) * number
        made = session.commit(f"commit {number}")
        if number == 1:
            repo.create_tag("first", made)
    with served(Library([str(tmp_path / "old")]), ServerSettings(port=0, zarr=True)) as at:
        assert "old" in httpx.get(f"{at}/", timeout=60).text
        for page in (*pages.PAGES, *reports.PAGES, *(f"api/{call}" for call in data.CALLS)):
            found = ready(f"{at}/r/old/{page}?{QUERY}")
            assert found.status_code == 200, (page, found.text)
        for version, number in (("main", 2), ("first", 1)):
            _, cells = values(f"{at}/r/old/api/values", v=version, path="/a")
            np.testing.assert_array_equal(cells, np.arange(24.0).reshape(4, 6) * number)
        found = httpx.get(f"{at}/zarr/old@main/a/zarr.json", timeout=60)
        assert found.json()["shape"] == [4, 6]
