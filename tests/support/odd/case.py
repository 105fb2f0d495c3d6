"""One odd file: how it is made, what is in it, and what an ingest must make of it."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = "Mapping[str, NDArray[Any]]"


class Outcome(StrEnum):
    """What becomes of the variables of a file."""

    REFERRED = "referred"
    """right by reference and by copy"""
    COPIED = "copied"
    """refused by reference, with the variable's name; right by copy"""
    REFUSED = "refused"
    """refused either way, with the file's name"""


@dataclass(frozen=True)
class Case:
    """A file of the corpus."""

    name: str
    make: Callable[[Path], Path]
    """writes the file below a folder, and tells what to ingest"""
    truth: Callable[[Path], Values]
    """what the format's own library reads of it, variable by variable, as stored"""
    outcome: Outcome = Outcome.REFERRED
    told: str = ""
    """what a refusal says"""
    is_close: bool = False
    """whether numbers went through floating point on the way"""
    allow: Callable[[Path], tuple[str, ...]] = lambda _: ()
    """prefixes that the caller allows, given the folder"""


def ramp(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Values of a type that differ from their neighbours and from fill values."""
    made = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    numbers = np.arange(1, count + 1)
    if made.names is not None:
        whole = np.zeros(count, made)
        for field in made.names:
            whole[field] = ramp((count,), made[field])
        return whole.reshape(shape)
    values: NDArray[Any]
    match made.kind:
        case "b":
            values = numbers % 3 == 0
        case "S":
            values = np.array([f"t{n}".encode() for n in numbers])
        case "U":
            values = np.array([f"ü{n}" for n in numbers])
        case "f":
            values = numbers * 1.5
        case "c":
            values = numbers * 1.5 - 2j * numbers
        case "u":
            values = numbers * 7 % 251 + 1
        case _:
            values = numbers * 7 % 113 - 50
    whole = values.astype(made)
    return whole.reshape(shape)


def nothing(_: Path) -> Values:
    """The content of a file that is refused."""
    return {}
