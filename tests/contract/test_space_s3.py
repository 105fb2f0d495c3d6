"""Collections as plans, quarantine and erasure in an object store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import numpy as np
import pytest
import zarr

from frazil.bulk.write import write_region
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.object import ObjectStorage
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.s3_places import place_on
from tests.support.servers import S3Server


@pytest.mark.slow
@pytest.mark.parametrize("spec", [1, 2])
def test_space_is_freed_and_data_erased(s3_server: S3Server, spec: int) -> None:
    storage = ObjectStorage(place_on(s3_server, f"space/{uuid4().hex}"))
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    for name in ("open", "secret"):
        zarr.create_array(session.store, name=name, shape=(8,), chunks=(2,), dtype="i8")
        write_region(session, name, ..., np.arange(1, 9), packing=True)
    session.commit("made")
    for value in (10, 20):
        session = repo.writable_session("main")
        write_region(session, "open", slice(0, 4), value, packing=True)
        last = session.commit(f"{value}")
    repo.expire_snapshots(repo.lookup_snapshot(last).written_at)
    later = datetime.now(UTC) + timedelta(hours=1)
    plan = repo.space.plan_garbage(later, incremental=True, unsafe_minimum_age=AT_ONCE)
    assert set(plan.keys()) == set(
        repo.space.plan_garbage(later, unsafe_minimum_age=AT_ONCE).keys()
    )
    assert (
        repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE).chunks_deleted
        == 1
    )
    assert garbage_of(repo) == set()
    assert repo.space.restore_trash().objects == plan.objects
    repo.space.collect_planned(
        repo.space.plan_garbage(later, unsafe_minimum_age=AT_ONCE), unsafe_minimum_age=AT_ONCE
    )
    assert repo.space.purge(
        "open", [slice(6, 7)], confirm="open", unsafe_minimum_age=AT_ONCE
    ).is_proved
    assert repo.space.purge("secret", confirm="secret", unsafe_minimum_age=AT_ONCE).is_proved
    assert np.asarray(repo.readonly_session("main").array("open")[:]).tolist() == [
        *[20] * 4,
        *[5, 6, 0, 8],
    ]
    check_repository(repo)
