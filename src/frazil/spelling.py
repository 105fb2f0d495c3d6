"""Names as people write them: the one that is meant, and the nearest one where there is none.

One rule for dimensions, variables and columns: a name is taken as it is written; where there is
none such, upper and lower case are the same, if that leaves one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

SHOWN: Final = 20
"""So many names a message lists."""
NEAR: Final = 0.6
"""How alike names must be to be suggested, by `difflib`."""
ALIKE: Final = 0.75
"""Names so much alike are hardly two different things."""


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that a text means; None when there is none, or more than one."""
    names = [*known]
    if name in names:
        return name
    same = {each for each in names if each.casefold() == name.casefold()}
    return same.pop() if len(same) == 1 else None


def near(name: str, known: Iterable[str], cutoff: float = NEAR) -> str | None:
    """The known name that is most like a text, if one is."""
    by_folded = {each.casefold(): each for each in known}
    found = difflib.get_close_matches(name.casefold(), [*by_folded], n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the one that may have been meant."""
    found = near(name, known)
    return f"; did you mean {found!r}?" if found is not None else ""


def listed(names: Iterable[str]) -> str:
    """Names for a message, not too many of them."""
    known = sorted(names)
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return (", ".join(known[:SHOWN]) or "none") + more


def unknown(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    """The message about a name that nothing has; `where` says where it was looked for."""
    names = [*known]
    return f"there is no {what} {name!r}{where}{nearest(name, names)} (there are {listed(names)})"


def require_known(given: Mapping[str, object], kind: type[object]) -> None:
    """Refuse keyword arguments that a TypedDict does not have."""
    known = [*kind.__annotations__]
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}{nearest(name, known)}")
