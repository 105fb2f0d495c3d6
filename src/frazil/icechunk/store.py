"""The Zarr store under its official name, where it answers as the official one does."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.model.display import Field, Verbatim
from frazil.model.nodes import ArrayNode
from frazil.naming import OFFICIAL
from frazil.store import FrazilStore
from frazil.transaction.changeset import ChangeSet
from frazil.transaction.keyspace import ByteSelection, KeySpace, LastBytes

__all__ = ["IcechunkStore"]


class OfficialKeys(KeySpace):
    """Keys and values as the official package shows them."""

    __slots__ = ()

    def _document_part(self, span: ByteSelection | None, size: int) -> tuple[int, int]:
        # Of a metadata document it gives all but the last bytes; of a chunk the last ones.
        if isinstance(span, LastBytes):
            return 0, max(0, size - span.count)
        return super()._document_part(span, size)

    def _shows_chunks(self, node: ArrayNode, changes: ChangeSet) -> bool:
        return True


class IcechunkStore(FrazilStore):
    """A Zarr v3 store over a session; get one from `Session.store`.

    As in the official package, whether it takes writes is the session's business: Zarr's
    `mode="r"` opens a store that calls itself read-only, and writes all the same.
    """

    _shown_name = "IcechunkStore"
    _shown_package = OFFICIAL
    keys_of = OfficialKeys
    # zarr asks whether a store has these; the official one has not.
    get_sync = None  # type: ignore[assignment]  # methods of the base
    set_sync = None  # type: ignore[assignment]  # likewise
    delete_sync = None  # type: ignore[assignment]  # likewise

    def _shown_fields(self) -> Iterable[Field]:
        yield Field("read_only", self._session.read_only)
        yield Field("snapshot_id", Verbatim(self._session.snapshot_id))
        yield Field("branch", Verbatim(str(self._session.branch)))

    @property
    def _may_write(self) -> bool:
        return not self._session.read_only
