"""The checksums in statistics, for readers that verify chunks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64
from frazil.bulk.fetch import NATIVE
from frazil.statistics.files import Checksums, read_checksums
from frazil.statistics.records import blank_rows
from frazil.storage.base import Storage

log = logging.getLogger(__name__)


class AnalyzedChecksums:
    """What `analyze` has recorded of the chunks of one repository.

    It is read once, when the first chunk is: what is analyzed later is not compared. Neither are
    chunks whose statistics are damaged or too many to be read; the log tells of them.
    """

    def __init__(self, place: Storage) -> None:
        self._place = place
        self._read: Checksums | None = None
        self._lock = threading.Lock()

    def of(self, chunk_id: npt.NDArray[np.uint8], offset: I64, length: I64) -> Sequence[set[int]]:
        """For each range of a chunk object the CRC-32C values on record."""
        rows = blank_rows(len(chunk_id))
        rows["kind"], rows["offset"], rows["length"] = NATIVE, offset, length
        rows["owner"][:, : chunk_id.shape[1]] = chunk_id
        return self._checksums().of(rows)

    def _checksums(self) -> Checksums:
        with self._lock:
            if self._read is None:
                self._read = read_checksums(self._place)
                for error in self._read.damaged:
                    log.warning("chunks are not compared with damaged statistics: %s", error)
            return self._read

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._place,)
