"""Warnings of zarr about codecs of other formats are no news here."""

from __future__ import annotations

import pytest

IGNORED = (
    "ignore::zarr.errors.ZarrUserWarning",
    # Dimensions of our tests have sizes that xarray would chunk in another way.
    "ignore:.*would separate on disk chunks.*:UserWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if "ingestion" in item.path.parts or item.path.name == "test_ingest.py":
            for each in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(each))
