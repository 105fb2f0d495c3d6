"""How large chunks and arrays that are copied may be, whatever a file tells of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from frazil.bulk.codecs import LARGE_CHUNK
from frazil.formats.bounds import justified
from frazil.ingestion.findings import Findings
from frazil.ingestion.records import FileScan, Shape, Variable

LARGEST_COPY: Final = 1 << 40
"""Bytes of an array that can be copied from files of any size."""


def copied_chunks(
    dims: Sequence[str], shape: Shape, own: Shape, wanted: Mapping[str, int], itemsize: int
) -> Shape:
    """Chunks of a copy: as wanted, else as in the files, cut where these are too large.

    Whoever copies a chunk has all of it in memory, and the chunk of a file may be the whole array.
    """
    chunks = []
    for dim, length, size in zip(dims, shape, own, strict=True):
        asked = wanted.get(dim, size)
        chunks.append(max(1, min(length, asked if asked > 0 else length)))
    for axis, dim in enumerate(dims):
        if dim not in wanted:
            others = itemsize * prod(chunks[:axis] + chunks[axis + 1 :])
            chunks[axis] = max(1, min(chunks[axis], LARGE_CHUNK // others))
    return tuple(chunks)


def require_chunks(name: str, chunks: Shape, itemsize: int, findings: Findings) -> None:
    """Find chunks that whoever copies them could not hold."""
    size = itemsize * prod(chunks)
    if size > LARGE_CHUNK:
        findings.error(
            "chunks",
            f"a chunk would have {size:,} bytes, and may have {LARGE_CHUNK:,} to be copied; ask for"
            " smaller chunks",
            (),
            name,
        )


def require_justified(
    sources: Sequence[tuple[FileScan, Variable]], itemsize: int, findings: Findings
) -> None:
    """Find a variable whose values are many more than the bytes of its files can stand for."""
    whole = itemsize * sum(prod(part.shape) for _, part in sources)
    packed = sum(
        max(scan.identity.size, part.references.nbytes if part.references is not None else 0)
        for scan, part in sources
    )
    if whole > justified(packed, whole, least=LARGEST_COPY):
        findings.error(
            "too-large",
            f"a copy would have {whole:,} bytes, though its files have {packed:,} only; if you"
            " trust them, allow more with frazil.config.set(max_expansion=...)",
            [scan.url for scan, _ in sources],
            sources[0][1].name,
        )
