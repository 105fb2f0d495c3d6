"""Small hierarchies written without zarr, for tests of the engine."""

from __future__ import annotations

import json

from frazil.repository import Repository
from frazil.session import Session
from frazil.transaction.keyspace import KeySpace


def group_document(**attributes: object) -> bytes:
    """The `zarr.json` of a group."""
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def array_document(*shape: int, chunks: tuple[int, ...] | None = None, **more: object) -> bytes:
    """The `zarr.json` of an array of bytes; one element a chunk unless said otherwise."""
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": "uint8",
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": list(chunks or (1,) * len(shape))},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "bytes"}],
            "attributes": {},
            **more,
        }
    ).encode()


def write(session: Session, **values: bytes) -> None:
    """Set keys; `__` in a name stands for `/`."""
    write_keys(session, {name.replace("__", "/"): value for name, value in values.items()})


def write_keys(session: Session, values: dict[str, bytes]) -> None:
    """Set keys."""
    space = KeySpace(session.state)
    for key, value in values.items():
        space.set(key, value)


def delete_below(session: Session, prefix: str) -> None:
    """Delete a node and all below it."""
    KeySpace(session.state).delete_dir(prefix)


def contents(session: Session) -> dict[str, bytes]:
    """All keys and values of a session."""
    space = KeySpace(session.state)
    found = {key: space.get(key) for key in space.list_prefix("")}
    assert None not in found.values(), "a listed key has no value"
    return {key: value for key, value in found.items() if value is not None}


def start(repository: Repository) -> str:
    """A group with an array of six chunks, as the first commit; returns its snapshot."""
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "zarr.json": group_document(),
            "g/zarr.json": group_document(),
            "g/a/zarr.json": array_document(6),
            **{f"g/a/c/{i}": bytes([65 + i]) for i in range(6)},
        },
    )
    return session.commit("start")
