"""Upgrades from older generations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from bench.tuning.storage import put
from bench.tuning.sweep import KIB, Row, Work, far, scratch
from bench.tuning.tables import NODE, native
from frazil.formats.generation import generation_of
from frazil.ids import ManifestId
from frazil.upgrading.chunks import Transfer, mover
from frazil.upgrading.sinks import WritingSink
from frazil.upgrading.source import ChunkMode, UpgradeSource


def link() -> Work:
    """4,096 files of a local disk."""
    storage, keys = put(scratch(is_durable=True), KIB, 4096)
    transfers = [Transfer(key, f"{key}-new", KIB) for key in keys]
    source = SimpleNamespace(files=SimpleNamespace(storage=storage), place=storage)
    return lambda: mover(cast(UpgradeSource, source), ChunkMode.LINK)(transfers)


def store_manifests() -> Work:
    """200 manifests of 5,000 references."""
    table = native(5000)
    sink = WritingSink(far(), generation_of(2), 3)

    def work() -> None:
        for _ in range(200):
            sink.manifest(ManifestId.random(), NODE, table)
        sink._finish()

    return work


ROWS = [
    Row("upgrading.PORTION_CHUNKS", link, is_fresh=True),
    Row("upgrading.MANIFESTS_AT_ONCE", store_manifests, is_fresh=True),
]
