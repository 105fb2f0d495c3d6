"""How the references of an array are spread over manifests while the configuration is silent.

Small arrays have one manifest, as in the official package. Larger ones are cut into slabs along
the first axes, so that a small commit rewrites, and a point lookup reads, one slab only. Nothing
about it is stored: any reader takes manifests as they are, and `rewrite_manifests` or an explicit
configuration changes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from frazil.model.manifest_config import UNSPLIT
from frazil.model.nodes import Extents
from frazil.model.tuning import REFS_PER_MANIFEST, SPLIT_ABOVE, UNITE_BELOW


def automatic_sizes(
    grid: Sequence[int], references: int, box: Extents, manifests: Sequence[Extents]
) -> tuple[int, ...]:
    """Edge lengths of the part of a grid that one manifest covers, `UNSPLIT` for a whole axis.

    The lengths depend on the axes behind the first one that is cut, not on that axis itself, so
    an array that grows along it keeps its manifests. Where the references became denser or the
    grid wider, manifests stay as they are until slabs are several times too large or too small.

    Args:
        grid: chunks along each axis.
        references: how many the array has, or a little more.
        box: bounding box of their coordinates.
        manifests: bounding boxes of the manifests that are there.
    """
    cells = prod(end - start for start, end in box)
    references = min(references, cells)
    whole = (UNSPLIT,) * len(grid)
    if references <= UNITE_BELOW:
        return whole
    wanted = _slab(grid, REFS_PER_MANIFEST * cells // references)
    if not manifests:
        return wanted if references > SPLIT_ABOVE else whole
    for sizes in _near(wanted):
        if _is_built_so(manifests, sizes):
            return sizes if len(manifests) > 1 or references > SPLIT_ABOVE else whole
    return wanted if references > SPLIT_ABOVE else whole


def _slab(grid: Sequence[int], cells: int) -> tuple[int, ...]:
    """A part of a grid with at most so many cells, that is whole along as many axes as can be.

    Where an axis is cut the length is a power of two: slabs of another size then nest.
    """
    sizes, inner = [UNSPLIT] * len(grid), 1
    for axis in range(len(grid) - 1, -1, -1):
        if inner * grid[axis] > cells:
            sizes[axis] = 1 << (max(1, cells // inner).bit_length() - 1)
            sizes[:axis] = [1] * axis
            break
        inner *= max(1, grid[axis])
    return tuple(sizes)


def _near(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """These sizes, and those that are up to four times as large or small along the cut axis."""
    yield sizes
    cut = next((axis for axis in range(len(sizes) - 1, -1, -1) if sizes[axis] < UNSPLIT), None)
    if cut is None:
        return
    for factor in (2, 4):
        for size in (sizes[cut] // factor, sizes[cut] * factor):
            if 0 < size < UNSPLIT:
                yield (*sizes[:cut], size, *sizes[cut + 1 :])


def _is_built_so(manifests: Sequence[Extents], sizes: tuple[int, ...]) -> bool:
    """Whether each manifest lies in a slab of these sizes of its own."""
    slabs = set()
    for extents in manifests:
        first = tuple(start // size for (start, _), size in zip(extents, sizes, strict=True))
        last = tuple((end - 1) // size for (_, end), size in zip(extents, sizes, strict=True))
        if first != last:
            return False
        slabs.add(first)
    return len(slabs) == len(manifests)
