"""How tests say that nobody else uses a repository, so that what is young may be deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

AT_ONCE: Final = timedelta(0)
