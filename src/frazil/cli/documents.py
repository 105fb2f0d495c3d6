"""Nodes and chunk references as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from frazil.errors import ErrorKind, FormatError
from frazil.masking import shown_url
from frazil.model.chunks import ChunkRef, ChunkTable, ChunkType, InlineRef, NativeRef, VirtualRef
from frazil.model.nodes import ArrayNode, Node
from frazil.storage.assets import CHUNKS

KINDS = (ChunkType.native, ChunkType.virtual, ChunkType.inline)


def document(node: Node) -> dict[str, Any]:
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
    meta = document(node)
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
