# Written by scripts/stubs; edit the methods themselves.
from collections.abc import Sequence
from typing import Any

from frazil.model.chunks import ChunkType
from frazil.model.values import ConflictSolver
from frazil.session import Session

class AsyncSession:
    async def all_virtual_chunk_locations_async(self) -> list[str]: ...
    async def amend_async(
        self, message: str, metadata: dict[str, Any] | None = None, *, allow_empty: bool = False
    ) -> str: ...
    async def chunk_type_async(
        self, array_path: str, chunk_coordinates: Sequence[int]
    ) -> ChunkType: ...
    async def commit_async(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1000,
        allow_empty: bool = False,
    ) -> str: ...
    async def flush_async(self, message: str, metadata: dict[str, Any] | None = None) -> str: ...
    async def get_node_id_async(self, path: str) -> str: ...
    async def merge_async(self, *others: Session) -> None: ...
    async def move_async(self, from_path: str, to_path: str) -> None: ...
    async def rebase_async(self, solver: ConflictSolver) -> None: ...
