"""Cases that are known to fail, with the reason; the table is to be empty.

A case stands for its pair: the pair is left out of the suites, and the case must go on failing,
so that a cure shows itself.
"""

from __future__ import annotations

from typing import Final

KNOWN: Final[dict[str, str]] = {}
"""Name of a case of `interleaving` -> what goes wrong"""
KNOWN_PAIRS: Final = frozenset(tuple(case.split("/")[:3]) for case in KNOWN)
