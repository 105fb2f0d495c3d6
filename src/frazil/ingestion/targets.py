"""Files on other machines that references point to: their sizes and versions, many at once.

They are asked for so that a range behind the end of a file, and a file that was replaced later, are
noticed. A store that does not answer, or not to these options, is no reason to refuse the
references: those who read them may have other credentials. The files are left out then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from frazil.errors import FrazilError
from frazil.ingestion.records import Identity
from frazil.ingestion.sources import look, root_of
from frazil.storage.tuning import POOL_THREADS

MOST_ASKED: Final = 20_000
"""Files of one scan that are asked for; each costs a request."""


def ask_all(urls: Iterable[str], options: Mapping[str, Any]) -> dict[str, Identity | None]:
    """What the stores tell of files, None for those that are missing; some may be left out."""
    found: dict[str, Identity | None] = {}
    by_root: dict[str, list[str]] = {}
    for number, url in enumerate(dict.fromkeys(urls)):
        if number < MOST_ASKED:
            by_root.setdefault(root_of(url), []).append(url)

    def ask(url: str) -> bool:
        try:
            found[url] = look(url, options, is_brief=True)
        except FrazilError:
            return False
        return True

    with ThreadPoolExecutor(POOL_THREADS) as pool:
        # One that fails speaks for its host or bucket.
        answers = pool.map(lambda each: ask(each[0]), by_root.values())
        pairs = zip(by_root.values(), answers, strict=True)
        rest = [url for each, is_there in pairs if is_there for url in each[1:]]
        for _ in pool.map(ask, rest):
            pass
    return found
