"""Names of numpy types, for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

U8: TypeAlias = npt.NDArray[np.uint8]
U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]
I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
Array: TypeAlias = npt.NDArray[Any]
"""values of any type"""
ByteStrings: TypeAlias = npt.NDArray[np.bytes_]
"""byte strings of one width, such as ids"""
Coords: TypeAlias = npt.NDArray[np.uint32]
"""coordinates of chunks, (n, ndim)"""
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = npt.NDArray[np.intp]
"""row numbers"""
Shape: TypeAlias = tuple[int, ...]
StructRows: TypeAlias = npt.NDArray[np.void]
"""rows of a structured type"""
