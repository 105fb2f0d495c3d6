"""Bringing the changes of many workers together again, whatever runs the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import zarr
from zarr.storage import StorePath

from frazil.session import ForkSession, Session
from frazil.store import FrazilStore


def extract_session(
    zarray: Any,  # noqa: ANN401  (a zarr.Array of any metadata version)
    axis: object = None,
    keepdims: object = None,
) -> Session:
    """Return the session that a Zarr array reads and writes.

    Args:
        zarray: an array or group opened from `Session.store`.
        axis: ignored; reductions of array libraries pass it.
        keepdims: ignored like `axis`.

    Raises:
        TypeError: the array is in another kind of store.
    """
    store = zarray.store
    if not isinstance(store, FrazilStore):
        raise TypeError(f"this array is in a {type(store).__name__}, not in a session's store")
    session: Session = store.session
    return session


def in_session(zarray: Any, session: Session) -> Any:  # noqa: ANN401  (as above)
    """Return the same Zarr array, with its settings, in the store of another session."""
    place = StorePath(session.store, zarray.path)
    return zarr.Array(zarr.AsyncArray(zarray.metadata, place, config=zarray.config))


def merge_sessions(*sessions: ForkSession | Iterable[Any]) -> ForkSession:
    """Merge forks, given singly or in nested lists, into the first of them and return it.

    Raises:
        TypeError: something else than a fork is among them, or there is nothing.
    """
    forks = tuple(_flatten(sessions))
    for fork in forks:
        if not isinstance(fork, ForkSession):
            raise TypeError(
                "merge_sessions only accepts ForkSession objects. "
                f"Received {type(fork).__name__!r} instead; to merge forks into a session that "
                "can commit, use Session.merge(*forks)"
            )
    if not forks:
        raise TypeError("merge_sessions needs at least one ForkSession")
    first: ForkSession = forks[0]
    # Workers that are threads may hand back one fork many times.
    others = {id(fork): fork for fork in forks if fork is not first}
    first.merge(*others.values())
    return first


def _flatten(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list | tuple):
            yield from _flatten(item)
        else:
            yield item
