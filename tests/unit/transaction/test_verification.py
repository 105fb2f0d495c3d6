"""Bytes are compared with all the checksums that are on record for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from frazil.errors import FormatError
from frazil.ids import ChunkId
from frazil.model.chunks import NativeRef
from frazil.storage.assets import chunk_key
from frazil.transaction.verification import check_checksum, check_one_checksum, crc32c

DATA = b"123456789"
CHECK = 0xE3069283
"""what CRC-32C gives for these bytes, by its definition"""


def test_the_polynomial_is_that_of_castagnoli() -> None:
    assert crc32c(DATA) == crc32c(memoryview(DATA)) == crc32c(bytearray(DATA)) == CHECK


@pytest.mark.parametrize("recorded", [[CHECK], [1, CHECK], []])
def test_one_fitting_record_is_enough_and_none_passes(recorded: list[int]) -> None:
    check_checksum(DATA, recorded, "chunks/x")


def test_an_error_names_the_object_and_both_checksums() -> None:
    with pytest.raises(FormatError) as caught:
        check_checksum(DATA, [2, 1], "chunks/x")
    for part in ("chunks/x", "e3069283", "00000001 or 00000002"):
        assert part in str(caught.value)


class Records:
    """A record for one range of one object."""

    def __init__(self, ref: NativeRef, checksum: int) -> None:
        self.ref, self.checksum = ref, checksum

    def of(
        self,
        chunk_id: npt.NDArray[np.uint8],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
    ) -> Sequence[Collection[int]]:
        """The record, for this very range only."""
        asked = zip(chunk_id, offset.tolist(), length.tolist(), strict=True)
        own = (bytes(self.ref.chunk_id), self.ref.offset, self.ref.length)
        return [[self.checksum] if (bytes(id), at, n) == own else [] for id, at, n in asked]


def test_a_single_chunk_is_looked_up_by_object_offset_and_length() -> None:
    ref = NativeRef(ChunkId(bytes(range(12))), 5, len(DATA))
    check_one_checksum(Records(ref, CHECK), ref, DATA)
    with pytest.raises(FormatError, match=chunk_key(ref.chunk_id)):
        check_one_checksum(Records(ref, CHECK + 1), ref, DATA)
    other = NativeRef(ref.chunk_id, 6, len(DATA))
    check_one_checksum(Records(ref, CHECK + 1), other, DATA)
