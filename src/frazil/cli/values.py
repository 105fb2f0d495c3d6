"""Nodes, chunk references and cells of an array as text, CSV and JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from frazil.arrays import Array
from frazil.cli.answers import Answer, Screen
from frazil.cli.arguments import parse_region
from frazil.cli.places import find_node, open_place
from frazil.cli.text import counted
from frazil.errors import ErrorKind, FormatError, FrazilError
from frazil.ids import SnapshotId
from frazil.masking import clean, shown_url
from frazil.model.chunks import ChunkRef, ChunkTable, ChunkType, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import ArrayNode, Node
from frazil.session import Session
from frazil.storage.assets import CHUNKS
from frazil.texts import json_float
from frazil.transaction.opened import context_of

KINDS = (ChunkType.native, ChunkType.virtual, ChunkType.inline)


def zarr_json(node: Node) -> dict[str, Any]:
    """The `zarr.json` of a node."""
    try:
        found = json.loads(node.user_data)
    except (ValueError, RecursionError) as error:
        raise _damaged(node) from error
    if not isinstance(found, dict):
        raise _damaged(node)
    return found


def _damaged(node: Node) -> FormatError:
    return FormatError(
        "the stored zarr.json is no JSON object", kind=ErrorKind.BAD_METADATA, path=node.path
    )


def summary(node: Node) -> dict[str, Any]:
    """What a listing shows of a node."""
    if not isinstance(node, ArrayNode):
        return {"path": node.path, "type": "group"}
    meta = zarr_json(node)
    inner = _inner_chunks(meta)
    return {
        "path": node.path,
        "type": "array",
        "dtype": type_name(meta.get("data_type")),
        "shape": [dimension.array_length for dimension in node.shape],
        "chunks": _outer_chunks(meta),
        **({} if inner is None else {"inner_chunks": inner}),
        "dimension_names": None if node.dimension_names is None else list(node.dimension_names),
    }


def type_name(data_type: object) -> str:
    """The name of a Zarr data type, with what it is configured by."""
    if isinstance(data_type, Mapping):
        configuration = data_type.get("configuration") or {}
        values = configuration.values() if isinstance(configuration, Mapping) else ()
        inside = ", ".join(map(str, values))
        return f"{data_type.get('name')}[{inside}]" if inside else str(data_type.get("name"))
    return str(data_type)


def _outer_chunks(meta: Mapping[str, Any]) -> list[Any] | None:
    match meta.get("chunk_grid"):
        case {"configuration": {"chunk_shape": list(chunks)}} | {
            "configuration": {"chunk_shapes": list(chunks)}
        }:
            return chunks
    return None


def _inner_chunks(meta: Mapping[str, Any]) -> list[Any] | None:
    """Chunks inside the shards of a sharded array."""
    codecs = meta.get("codecs")
    for codec in codecs if isinstance(codecs, list) else ():
        match codec:
            case {"name": "sharding_indexed", "configuration": {"chunk_shape": list(chunks)}}:
                return chunks
    return None


def codec_names(meta: Mapping[str, Any]) -> list[str]:
    """The names of the codecs of an array."""
    codecs = meta.get("codecs")
    return [
        str(codec.get("name") if isinstance(codec, Mapping) else codec)
        for codec in (codecs if isinstance(codecs, list) else ())
    ]


def usage(table: ChunkTable) -> dict[str, dict[str, int]]:
    """How many chunks of each kind there are, and how many bytes."""
    return {
        kind.name: {
            "chunks": int(np.count_nonzero(table.kind == kind)),
            "bytes": int(table.length[table.kind == kind].sum()),
        }
        for kind in KINDS
    }


def reference(ref: ChunkRef | None) -> dict[str, Any]:
    """Where a chunk is."""
    match ref:
        case None:
            return {"type": "uninitialized"}
        case InlineRef(data):
            return {"type": "inline", "length": len(data)}
        case NativeRef():
            key = f"{CHUNKS}{ref.chunk_id}"
            return {"type": "native", "key": key, "offset": ref.offset, "length": ref.length}
        case VirtualRef():
            return {
                "type": "virtual",
                "location": shown_url(ref.location),
                "offset": ref.offset,
                "length": ref.length,
                "checksum": ref.checksum,
            }


ValueRegion = tuple[slice, ...]


def read_values(
    url: str,
    path: str,
    region: str,
    limit: int,
    authorize: Sequence[str] | None,
    *,
    as_csv: bool,
) -> Answer:
    """Read a region of an array, cut to a number of cells."""
    place = open_place(url, authorize)
    session = Session(context_of(place.repository), SnapshotId.parse(place.snapshot_id()))
    find_node(session.state, path)
    node = session.state.array(path)
    asked = parse_region(region, tuple(d.array_length for d in node.shape))
    chosen = shortened_region(asked, limit)
    values = _read(session, path, chosen)
    if chosen != asked:
        total = counted(math.prod(map(_length, asked)), "cell")
        said = f"showing {written(chosen)} of {total}; choose with --region or --limit"
        print(said, file=sys.stderr)
    data = {
        "snapshot_id": session.snapshot_id,
        "path": path,
        "dtype": type_name(zarr_json(node).get("data_type")),
        "region": [[part.start, part.stop, part.step] for part in chosen],
        "truncated": chosen != asked,
        "values": json_values(values),
    }
    if as_csv:
        return Answer(data, lambda screen: _write_csv(screen, node, chosen, values))
    return Answer(data, lambda screen: _write_text(screen, values))


def _read(session: Session, path: str, region: ValueRegion) -> Array:
    """The cells of a region."""
    import zarr

    try:
        array = zarr.open_array(session.store, path=path, mode="r")
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FrazilError):
            raise
        raise FormatError(f"zarr cannot open {path!r}: {error}", ErrorKind.BAD_METADATA) from error
    return np.asarray(array[region])


def _length(part: slice) -> int:
    return len(range(part.start, part.stop, part.step))


def shortened_region(region: ValueRegion, limit: int) -> ValueRegion:
    """The beginning of a region with at most so many cells; the last axes stay longest."""
    kept: list[slice] = []
    room = limit
    for part in reversed(region):
        length = min(_length(part), max(room, 1))
        is_whole = length == _length(part)
        end = part.stop if is_whole else part.start + (length - 1) * part.step + 1
        kept.append(slice(part.start, end, part.step))
        room //= max(length, 1)
    return tuple(reversed(kept))


def written(region: Iterable[slice]) -> str:
    """A region as one would write it."""
    parts = (
        f"{part.start}:{part.stop}" + (f":{part.step}" if part.step != 1 else "") for part in region
    )
    return f"[{', '.join(parts)}]"


def json_values(values: Array) -> Any:  # noqa: ANN401  (nested lists of JSON scalars)
    """Values as JSON can hold them; what it cannot becomes text, complex numbers become pairs."""
    if values.dtype.kind == "M":
        return np.datetime_as_string(values).tolist()
    if values.dtype.kind == "m":
        return values.astype(str).tolist()
    if values.dtype.kind == "c":
        return json_values(np.stack([values.real, values.imag], axis=-1))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return _nested(values.tolist(), json_float)
    if values.dtype.kind in "biufU":
        return values.tolist()
    return _nested(values.tolist(), _scalar)


def _nested(value: Any, change: Any) -> Any:  # noqa: ANN401 - what JSON holds
    return [_nested(each, change) for each in value] if isinstance(value, list) else change(value)


def _scalar(value: object) -> object:
    match value:
        case str() | int() | bool() | None:
            return value
        case float():
            return json_float(value)
        case bytes():
            return value.decode("latin-1")
        case _:
            return str(value)


def _write_text(screen: Screen, values: Array) -> None:
    width = screen.console.width
    text = np.array2string(values, max_line_width=min(width, 100), threshold=values.size + 1)
    screen.console.file.write(clean(text) + "\n")


def _write_csv(screen: Screen, node: ArrayNode, region: ValueRegion, values: Array) -> None:
    names = node.dimension_names or (None,) * len(region)
    header = [name or f"dim_{axis}" for axis, name in enumerate(names)]
    flat = json_values(values.reshape(-1))
    places = product(*(range(part.start, part.stop, part.step) for part in region))
    rows = ([*place, value] for place, value in zip(places, flat, strict=True))
    screen.csv([*header, "value"], rows)
