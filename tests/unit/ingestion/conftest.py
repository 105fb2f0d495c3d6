"""The same warnings are no news here as where whole files are ingested."""

from __future__ import annotations

from tests.ingestion.conftest import pytest_collection_modifyitems as pytest_collection_modifyitems
