"""Procedures that tell whose bytes they are."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import types as t

from frazil.spark.upkeep.procedure import Place, Row, procedure
from frazil.spark.upkeep.procedures import as_time

SHARES: Final = t.StructType(
    [t.StructField(name, t.StringType()) for name in ("name", "type")]
    + [
        t.StructField(name, t.LongType())
        for name in (
            "chunks",
            "referenced_bytes",
            "unique_bytes",
            "shared_bytes",
            "reclaimable_bytes",
            "stranded_bytes",
            "inline_bytes",
            "virtual_bytes",
        )
    ]
)


@procedure("whose bytes they are: by array, snapshot or branch", SHARES)
def storage_shares(
    place: Place, by: str = "array", older_than: datetime | str | None = None
) -> Iterable[Row]:
    """What each array, snapshot or branch refers to, and what expiry would free."""
    cutoff = None if older_than is None else as_time(older_than, datetime.now(UTC))
    found = place.repository.storage_shares(by, older_than=cutoff)  # type: ignore[arg-type]
    return (
        (
            each.name,
            each.kind,
            each.chunks,
            each.referenced_bytes,
            each.unique_bytes,
            each.shared_bytes,
            each.reclaimable_bytes,
            each.stranded_bytes,
            each.inline_bytes,
            each.virtual_bytes,
        )
        for each in found.owners
    )
