"""Whether the chunks of several files fit the grid of one array, as they are or cut smaller.

Also how large chunks and arrays that are copied may be, whatever a file tells of itself. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import Final

from frazil.bulk.codecs import LARGE_CHUNK
from frazil.formats.envelope import justified
from frazil.ingestion.plans import Findings, JoinedVariable, with_new_axes
from frazil.ingestion.records import FileScan, FileVariable, Shape

_PLAIN_CODECS: Final = ("bytes", "gribberish", "zstd", "gzip", "blosc", "crc32c")
_PLAIN_FAMILIES: Final = ("numcodecs.", "imagecodecs_")
LARGEST_COPY: Final = 1 << 40
"""Bytes of an array that can be copied from files of any size."""


def alignment(joint: JoinedVariable, findings: Findings) -> int:
    """Check that chunks of all files fit one grid; tell the rows to cut them into, or 0."""
    bare = [
        (url, part)
        for url, part in zip(joint.urls, joint.parts, strict=True)
        if part.references is None and part is not (joint.parts[0] if joint.has_base else None)
    ]
    for why in dict.fromkeys(part.obstacle for _, part in bare):
        findings.error(
            "no-references",
            "values cannot be referred to" + (f": {why}" if why else ""),
            [url for url, part in bare if part.obstacle == why],
            joint.name,
            can_materialize=True,
        )
    if bare:
        return 0
    if len(joint.dims) > len(joint.own[0].dims) and not _takes_new_axes(joint.own[0]):
        detail = f"its codecs do not let chunks get the new dimension {joint.dims[0]!r}"
        findings.error("codecs", detail, joint.urls, joint.name, can_materialize=True)
        return 0
    odd = _misfits(joint)
    if not odd:
        return 0
    split = _splitting(joint)
    if not split:
        _tell_misfit(joint, odd, findings)
    return split


def _misfits(joint: JoinedVariable) -> list[int]:
    """Places in the list of files whose chunks are others, or do not begin on the grid."""
    ndim = len(joint.dims)
    sizes = with_new_axes(joint.parts[0].chunks, ndim)
    found = []
    for place, (number, part) in enumerate(zip(joint.files, joint.parts, strict=True)):
        is_inside = any(
            joint.axes[dim].start(number) % size
            for dim, size in zip(joint.dims, sizes, strict=True)
            if dim in joint.axes
        )
        if is_inside or with_new_axes(part.chunks, ndim) != sizes:
            found.append(place)
    return found


def _splitting(joint: JoinedVariable) -> int:
    """The rows of slabs that uncompressed chunks can be cut into so that they fit; 0: none.

    Only along the first axis: there a slab is one run of bytes. In a repository the grid stays
    as it is, so files must be cut into its chunks.
    """
    first, dims = joint.parts[0], joint.dims
    if not dims or dims[0] not in joint.axes or any(part.dims != dims for part in joint.parts):
        return 0
    if any(dim in joint.axes for dim in dims[1:]) or not all(part.is_raw for part in joint.own):
        return 0
    if any(
        part.chunks[1:] != part.shape[1:] or part.chunks[1:] != first.chunks[1:]
        for part in joint.own
    ):
        return 0
    axis = joint.axes[dims[0]]
    starts = [axis.start(number) for number in joint.files]
    rows = gcd(*starts, *(part.chunks[0] for part in joint.own))
    if not joint.has_base:
        return rows
    fixed = first.chunks[0]
    return fixed if rows % fixed == 0 else 0


def _tell_misfit(joint: JoinedVariable, odd: Sequence[int], findings: Findings) -> None:
    first = joint.parts[0]
    others = [place for place in odd if joint.parts[place].chunks != first.chunks]
    if others:
        shapes = sorted({joint.parts[place].chunks for place in others})
        message = (
            f"chunks of {' and '.join(map(str, shapes))} do not go together with those"
            f" of {first.chunks}"
        )
    else:
        message = (
            f"the part begins inside a chunk of {first.chunks}, since what is before it does not"
            " end at the end of one"
        )
    findings.error(
        "chunk-shape" if others else "chunk-alignment",
        message,
        [joint.urls[place] for place in (others or odd)],
        joint.name,
        can_materialize=True,
    )


def _takes_new_axes(variable: FileVariable) -> bool:
    """Whether a chunk stays the same bytes when its shape gets axes of length one."""
    return all(
        codec["name"] in _PLAIN_CODECS or codec["name"].startswith(_PLAIN_FAMILIES)
        for codec in variable.meaning["codecs"]
    )


# --- what is copied ---


def copied_chunks(
    dims: Sequence[str], shape: Shape, own: Shape, wanted: Mapping[str, int], itemsize: int
) -> Shape:
    """Chunks of a copy: as wanted, else as in the files, cut where these are too large.

    A task that copies a chunk has all of it in memory, and the chunk of a file may be the whole
    array.
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


def check_chunk_sizes(name: str, chunks: Shape, itemsize: int, findings: Findings) -> None:
    """Find chunks that are too large for the memory of a task."""
    size = itemsize * prod(chunks)
    if size > LARGE_CHUNK:
        detail = (
            f"a chunk would have {size:,} bytes, and may have {LARGE_CHUNK:,} to be copied; ask for"
            " smaller chunks"
        )
        findings.error("chunks", detail, (), name)


def check_expansion(
    sources: Sequence[tuple[FileScan, FileVariable]], itemsize: int, findings: Findings
) -> None:
    """Find a variable whose values are many more than the bytes of its files can stand for."""
    whole = itemsize * sum(prod(part.shape) for _, part in sources)
    packed = sum(
        max(scan.identity.size, part.references.nbytes if part.references is not None else 0)
        for scan, part in sources
    )
    if whole > justified(packed, whole, least=LARGEST_COPY):
        detail = (
            f"a copy would have {whole:,} bytes, though its files have {packed:,} only; if you"
            " trust them, allow more with frazil.config.set(max_expansion=...)"
        )
        findings.error("too-large", detail, [scan.url for scan, _ in sources], sources[0][1].name)
