"""What the reader of a format gives: variables by reference, attributes, notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from frazil.ingestion.records import Variable

PHONY: Final = "phony_dim_"
"""how names begin that stand for dimensions without one, as in the library of NetCDF"""


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """A file in Zarr's terms."""

    variables: Sequence[Variable]
    attributes: str = "{}"
    notes: tuple[str, ...] = ()


def settled(variables: Sequence[Variable]) -> list[Variable]:
    """Variables whose dimensions without a name are told apart by their lengths."""
    lengths: list[int] = []
    made = []
    for variable in variables:
        taken: list[int] = []
        dims = []
        for dim, length in zip(variable.dims, variable.shape, strict=True):
            if not dim.startswith(PHONY):
                dims.append(dim)
                continue
            fitting = (n for n, each in enumerate(lengths) if each == length and n not in taken)
            number = next(fitting, len(lengths))
            if number == len(lengths):
                lengths.append(length)
            taken.append(number)
            dims.append(f"{PHONY}{number}")
        made.append(replace(variable, dims=tuple(dims)))
    return made
