"""Files that we took in, by reference and by copy: official packages read the same of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.peer.conftest import PEERS, PartyOf
from tests.support.archive import archive, part, take
from tests.support.peer import official

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")]


@pytest.mark.parametrize("mode", ["virtual", "native", "by tasks"])
@pytest.mark.parametrize("peer", [*PEERS])
def test_official_packages_read_what_was_ingested(
    peer: str, mode: str, party_of: PartyOf, tmp_path: Path
) -> None:
    number, spec = PEERS[peer]
    repo, files = tmp_path / "repo", archive(tmp_path / "files", 3)
    Repository.create(LocalStorage(repo), spec_version=spec)
    wanted = {"chunks": {"time": 5}} if mode == "native" else {}
    take(repo, *files, wanted=wanted, refs_by_tasks=1 if mode == "by tasks" else 1 << 40)
    party = party_of(official(number))
    for name in ("t2m", "rain"):
        expected = np.concatenate([part(n)[name].values for n in range(3)])
        found = party.call("values", repo, tmp_path / "files", array=name)
        assert np.array_equal(np.array(found, expected.dtype), expected)
    assert np.array_equal(party.call("values", repo, array="time"), np.arange(12))
