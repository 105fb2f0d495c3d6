"""Many nodes of a snapshot file at once, read as columns.

A snapshot has as many tables as it has dimensions, dimension names and manifest pointers, and a
deep hierarchy has many thousands of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from frazil.formats.flat import Buffer
from frazil.formats.flat_columns import Spans, TableColumns, numbers_at, spread
from frazil.formats.single_node import ARRAY, DIMENSION_V1, GROUP, old_dimension
from frazil.ids import ManifestId, NodeId
from frazil.model.nodes import ArrayNode, Dimension, Extents, GroupNode, ManifestRef, Node


def raw_ids(tables: TableColumns, slot: int, width: int) -> Iterator[bytes]:
    """The ids in a field of many tables."""
    raw = tables.ids(slot, width, "id").tobytes()
    return (raw[at : at + width] for at in range(0, len(raw), width))


def node_columns(tables: TableColumns, paths: Iterable[str]) -> Iterator[Node]:
    """Read nodes, whose paths are known and checked.

    Raises:
        FormatError: one is damaged.
    """
    buffer = tables.buffer
    data = bytes(buffer.data)
    documents = tables.vectors(2, 1, "user_data").slices(data)
    kinds = tables.numbers(3, "u1")
    targets = tables.targets(4, "node_data")
    is_array = kinds == ARRAY
    if not (is_array | (kinds == GROUP)).all():
        raise buffer.fail("a node is neither a group nor an array")
    TableColumns(buffer, targets[~is_array])  # a group has nothing to read, but must be there
    arrays = _read_arrays(TableColumns(buffer, targets[is_array]), data)
    for raw, path, document, kind in zip(
        raw_ids(tables, 0, 8), paths, documents, kinds.tolist(), strict=True
    ):
        if kind == GROUP:
            yield GroupNode(NodeId(raw), path, document)
        else:
            yield ArrayNode(NodeId(raw), path, document, *next(arrays))


class _ArrayFields(NamedTuple):
    shape: tuple[Dimension, ...]
    dimension_names: tuple[str | None, ...] | None
    manifests: tuple[ManifestRef, ...]


def _read_arrays(tables: TableColumns, data: bytes) -> Iterator[_ArrayFields]:
    shapes = list(_read_shapes(tables))
    names = _read_names(tables, data)
    refs, counts = tables.children(2, "manifests")
    manifests = map(ManifestRef, map(ManifestId, raw_ids(refs, 0, 12)), _read_extents(refs))
    return (
        # Official packages keep those from before an array got another number of axes.
        _ArrayFields(
            shape,
            known,
            tuple(ref for ref in islice(manifests, count) if len(ref.extents) == len(shape)),
        )
        for shape, known, count in zip(shapes, names, counts.tolist(), strict=True)
    )


def _read_shapes(tables: TableColumns) -> Iterator[tuple[Dimension, ...]]:
    old = tables.vectors(0, DIMENSION_V1.size, "shape")
    has_new = tables.places(3) != 0
    new, new_counts = tables.children(3)
    old_counts = np.where(has_new, 0, old.counts)
    dimensions_v1 = _read_old_dimensions(tables.buffer, Spans(old.starts, old_counts))
    dimensions_v2 = map(Dimension, new.longs(0).tolist(), new.numbers(1, "<u4").tolist())
    return (
        (*islice(dimensions_v1, before), *islice(dimensions_v2, now))
        for before, now in zip(old_counts.tolist(), new_counts.tolist(), strict=True)
    )


def _read_old_dimensions(buffer: Buffer, spans: Spans) -> Iterator[Dimension]:
    for at in spread(spans, DIMENSION_V1.size).tolist():
        yield old_dimension(buffer, *DIMENSION_V1.unpack_from(buffer.data, at))


def _read_names(tables: TableColumns, data: bytes) -> Iterator[tuple[str | None, ...] | None]:
    has_names = tables.places(1) != 0
    names, counts = tables.children(1)
    spans = names.vectors(0, 1)
    try:
        texts = iter(
            [
                raw.decode() if at else None
                for raw, at in zip(spans.slices(data), spans.starts.tolist(), strict=True)
            ]
        )
    except UnicodeDecodeError as error:
        raise tables.buffer.fail("text is not UTF-8") from error
    for here, count in zip(has_names.tolist(), counts.tolist(), strict=True):
        yield tuple(islice(texts, count)) if here else None


def _read_extents(refs: TableColumns) -> Iterator[Extents]:
    spans = refs.vectors(1, 8, "extents")
    at = spread(spans, 8)
    starts = numbers_at(refs.buffer, at, "<u4")
    ends = numbers_at(refs.buffer, at + 4, "<u4")
    if (starts > ends).any():
        raise refs.buffer.fail("a manifest covers a range that ends before it begins")
    ranges = zip(starts.tolist(), ends.tolist(), strict=True)
    return (tuple(islice(ranges, rank)) for rank in spans.counts.tolist())
