"""Any store keeps the contract that `FRAZIL_CONTRACT_URL` names, such as `s3://bucket/prefix`.

Credentials and endpoints come from the environment, as for every URL. What is written stays below
the prefix, in folders with random names.
"""

from __future__ import annotations

import os
from typing import Final
from uuid import uuid4

import pytest

from frazil.storage.base import Storage
from frazil.storage.by_url import storage_from_url
from frazil.testing import CommitContract, StorageContract

URL: Final = os.environ.get("FRAZIL_CONTRACT_URL", "").rstrip("/")
if not URL:
    pytest.skip("set FRAZIL_CONTRACT_URL to try a store of yours", allow_module_level=True)


def fresh_place() -> Storage:
    """A place of its own for every test."""
    return storage_from_url(f"{URL}/{uuid4().hex}")


class TestStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return fresh_place()


class TestCommits(CommitContract):
    @pytest.fixture(params=["v1", "v2"])
    def spec(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def storage(self) -> Storage:
        return fresh_place()
