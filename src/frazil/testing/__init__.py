"""Contract suites for pytest: what every storage and every commit protocol must do.

A backend inherits `StorageContract` and `CommitContract` in its own tests and supplies a fixture
`storage`. Nothing else in the package imports this one, which alone needs pytest.
"""

from __future__ import annotations

from frazil.testing.commits import CommitContract
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.testing.storage import StorageContract

__all__ = ["CommitContract", "Fault", "FaultyStorage", "StorageContract", "Trouble"]
