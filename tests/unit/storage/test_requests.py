"""Single requests to an object store: ranges, versions, and replies that break off."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from frazil.errors import StorageError
from frazil.storage.base import Fetched, Written
from frazil.storage.object import ObjectStorage
from tests.support.servers import CuttingProxy


class TestBrokenReply:
    """A reply that breaks off in the middle is asked for again."""

    READS: ClassVar[dict[str, Callable[[ObjectStorage], object]]] = {
        "get": lambda storage: storage.get("a/x"),
        "a range": lambda storage: storage.get("a/x", 100, 900),
        "fetch": lambda storage: storage.fetch("a/x"),
        "many": lambda storage: storage.get_many([("a/x", 0, 500), ("a/y", None, None)]),
        "list": lambda storage: [*storage.list("a/")],
        "list between": lambda storage: [*storage.list_between("a/", "x", "z")],
        "is empty": lambda storage: storage.is_empty(),
    }

    @pytest.fixture
    def storage(self, behind: ObjectStorage) -> ObjectStorage:
        behind.put_many([("a/x", b"x" * 1000), ("a/y", b"y" * 1000)])
        return behind

    @pytest.mark.parametrize("name", READS)
    def test_reads_are_whole(self, storage: ObjectStorage, proxy: CuttingProxy, name: str) -> None:
        wanted = self.READS[name](storage)
        proxy.lose_reply_to("GET", times=2, passed=0.5)
        assert self.READS[name](storage) == wanted
        assert proxy.cuts == 2

    def test_copies_are_whole(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        found = storage.fetch("a/x")
        assert isinstance(found, Fetched)
        proxy.lose_reply_to("GET", times=2, passed=0.5)
        assert isinstance(storage.copy_if("a/x", "b", found.version), Written)
        assert storage.get("b") == found.data

    def test_but_not_for_ever(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("GET", times=100, passed=0.5)
        with pytest.raises(StorageError):
            storage.get("a/x")
        assert proxy.cuts < 100
