"""Compares the stored bytes of chunks with checksums that were recorded for them.

Readers do so if the setting `verify_chunks` was on when the repository was opened. Only whole
native chunks are compared: inline chunks are covered by the checksum of their manifest, and the
bytes of virtual chunks are not ours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.model.chunks import NativeRef
from frazil.storage.assets import chunk_key
from frazil.storage.base import Bytes


class RecordedChecksums(Protocol):
    """The checksums that a repository has recorded for ranges of its chunk objects."""

    def of(
        self,
        chunk_id: npt.NDArray[np.uint8],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
    ) -> Sequence[Collection[int]]:
        """For each range the CRC-32C values on record; none if nothing is known.

        Args:
            chunk_id: ids of objects, (n, 12).
            offset: where the ranges begin.
            length: how many bytes they have.
        """


def crc32c(data: Bytes) -> int:
    """The CRC-32C of some bytes."""
    import google_crc32c  # few programs need it

    return int(google_crc32c.value(np.frombuffer(data, np.uint8)))


def check_checksum(data: Bytes, recorded: Collection[int], key: str) -> None:
    """Compare the bytes of a chunk with what is on record; a chunk without a record passes.

    Raises:
        FormatError: they differ, so the object `key` was damaged.
    """
    if recorded and (found := crc32c(data)) not in recorded:
        raise FormatError(
            "the stored bytes of a chunk have changed since they were analyzed",
            key=key,
            crc32c=f"{found:08x}",
            expected=" or ".join(f"{each:08x}" for each in sorted(recorded)),
        )


def check_one_checksum(checksums: RecordedChecksums, ref: NativeRef, data: Bytes) -> None:
    """The same for one chunk."""
    chunk_id = np.frombuffer(bytes(ref.chunk_id), np.uint8).reshape(1, -1)
    (recorded,) = checksums.of(chunk_id, np.array([ref.offset]), np.array([ref.length]))
    check_checksum(data, recorded, chunk_key(ref.chunk_id))
