"""A repository with names, attributes and messages that would break a page."""

from __future__ import annotations

import pytest
import zarr

import frazil
from tests.unit.drawing.samples import EVIL


@pytest.fixture(params=[1, 2], ids=["v1", "v2"], scope="module")
def repo(request: pytest.FixtureRequest) -> frazil.Repository:
    made = frazil.Repository.create(frazil.in_memory_storage(), spec_version=request.param)
    session = made.writable_session("main")
    group = zarr.create_group(session.store, attributes={"title": EVIL})
    group.create_group("g<script>alert(1)<b onclick=x>\x1b[31m")
    heat = group.create_array(
        "sst", shape=(8, 40), chunks=(2, 10), dtype="f4", dimension_names=("time", "<lat>")
    )
    heat.attrs["units"] = EVIL
    heat[:4] = 1.0
    first = session.commit(f"first {EVIL}", {"author": EVIL})
    made.create_branch("dev", first)
    for branch, row in (("dev", 6), ("main", 0)):
        session = made.writable_session(branch)
        zarr.open_array(session.store, path="sst", mode="r+")[row] = 3.0
        session.commit(f"on {branch}")
    made.versions.merge("dev", into="main")
    made.create_tag("v1", first)
    return made
