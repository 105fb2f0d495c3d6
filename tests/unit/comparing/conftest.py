"""Repositories of both specs whose small chunks are inline."""

from __future__ import annotations

import pytest

import frazil


@pytest.fixture(params=[1, 2])
def repo(request: pytest.FixtureRequest) -> frazil.Repository:
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=8)
    storage = frazil.in_memory_storage()
    return frazil.Repository.create(storage, config=config, spec_version=request.param)
