"""Attributes that live in files of their own, put into the documents of the nodes they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.errors import FormatError
from frazil.formats.legacy.records import SnapshotRecord
from frazil.formats.legacy.zarr_fields import put_attributes
from frazil.model.history import Metadata


def with_attributes(
    record: SnapshotRecord, files: Mapping[str, Sequence[Metadata]]
) -> SnapshotRecord:
    """The record with attributes put into the documents of its nodes, from the files given.

    Raises:
        FormatError: a file has no item where a node points to.
    """
    found: dict[str, Metadata] = {}
    for path in record.unresolved:
        ref = record.attributes[path]
        if ref.file not in files:
            continue
        items = files[ref.file]
        if ref.location >= len(items):
            raise FormatError(
                "attribute file is shorter than a node expects",
                key=ref.file,
                path=path,
                location=ref.location,
            )
        found[path] = items[ref.location]
    nodes = tuple(
        replace(node, user_data=put_attributes(node.user_data, found[node.path]))
        if node.path in found
        else node
        for node in record.snapshot.nodes
    )
    return replace(
        record,
        snapshot=replace(record.snapshot, nodes=nodes),
        unresolved=record.unresolved - found.keys(),
    )
