"""Repositories exported to plain Zarr stores, without decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zarr.core.metadata.v3 import ArrayV3Metadata

from frazil.ids import is_below, node_path
from frazil.maintenance.compaction import fetch_rows
from frazil.model.documents import document_of
from frazil.model.nodes import ArrayNode, Node
from frazil.session import Session
from frazil.spark import tasks, worker
from frazil.spark.jobs.cloning import BATCH_BYTES, TASK_CHUNKS, require_empty
from frazil.spark.location import Location, Pinned, open_pinned
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import EMPTY_GROUP, JobReport, Options, Progress
from frazil.transaction.draft import in_grid
from frazil.transaction.keys import metadata_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def export(
    url: str,
    path: str,
    *,
    spark: SparkSession | None = None,
    group: str | None = None,
    overwrite: bool = False,
    options: Options | None = None,
    path_options: Options | None = None,
    progress: Progress | None = None,
) -> JobReport:
    """Copy one version of a repository, or a group of it, to a plain Zarr v3 store.

    Chunks are copied as they are; virtual ones are fetched from where they are. Metadata is
    written last, so that a store which can be opened is complete.

    Args:
        url: `URL[@version]`.
        path: directory or URL of the store.
        spark: the session to use; the active or an embedded one by default.
        group: the group that becomes the root of the store.
        overwrite: write also where something is; what is there and not overwritten stays.
        options: options of the data source for `url`, such as `storage.region`.
        path_options: the same for `path`.
        progress: is told what is being done and how far it is.

    Raises:
        AlreadyExistsError: there is something at the path.
        NodeNotFoundError: there is no such group.
    """
    chosen = spark or spark_session()
    source = tasks.target_of(url, options)
    goal = tasks.target_of(path, path_options).location
    storage = goal.storage()
    if not overwrite:
        require_empty(storage, goal)
    repository = source.location.open()
    pinned = source.pin(repository)
    session = open_pinned(pinned, repository)
    top = node_path(tasks.path_of(group if group is not None else source.node, ""))
    if top != "/":
        session.state.node(top)
    nodes = [n for n in session.state.tree if n.path == top or is_below(n.path, top)]
    work = Exported(pinned, goal, top)
    items = [*work.items(session, nodes)]
    tell = progress or (lambda *_: None)
    done = chunks = size = 0
    for _, (count, written) in SparkRunner(chosen).run(work, items):
        done, chunks, size = done + 1, chunks + count, size + written
        tell("parts", done, len(items))
    # The root comes last.
    documents = {node.path: node.user_data for node in nodes}
    for place in sorted({top, *documents}, reverse=True):
        storage.put(_below(place, top, metadata_key), documents.get(place, EMPTY_GROUP))
    arrays = tuple(node.path for node in nodes if isinstance(node, ArrayNode))
    return JobReport(None, arrays, chunks, size, len(items))


def _below(path: str, top: str, key: Callable[[str], str]) -> str:
    return key(path if top == "/" else path[len(top) :] or "/")


@dataclass(frozen=True, slots=True)
class Exported:
    """Copies chunks of arrays to a Zarr store."""

    pinned: Pinned
    goal: Location
    top: str

    def items(self, session: Session, nodes: Iterable[Node]) -> Iterator[tuple[str, int, int, int]]:
        """Parts of manifests: the array, the number of its manifest, which part of how many."""
        files = session.state.manifest_files
        for node in nodes:
            for number, ref in enumerate(node.manifests if isinstance(node, ArrayNode) else ()):
                known = files.get(ref.id)
                parts = 1 if known is None else max(1, -(-known.num_chunk_refs // TASK_CHUNKS))
                for part in range(parts):
                    yield node.path, number, part, parts

    def __call__(self, item: tuple[str, int, int, int]) -> tuple[int, int]:
        """Copy the chunks of a part; give their number and their bytes."""
        path, number, part, parts = item
        state = worker.session(self.pinned).state
        node = state.array(path)
        loaded = state.load_tables(node, [node.manifests[number]])
        table = in_grid(loaded[0], node.grid)
        first, last = len(table) * part // parts, len(table) * (part + 1) // parts
        table = table.take(slice(first, last))
        encode = _key_encoder(node)
        folder = _below(path, self.top, lambda each: each.strip("/"))
        storage = self.goal.storage()
        sizes = table.length.tolist()
        for rows in tasks.by_size(sizes, BATCH_BYTES):
            data = fetch_rows(state, table, rows)
            keys = [encode(tuple(c)) for c in table.coords[rows.start : rows.stop].tolist()]
            named = [f"{folder}/{key}" if folder else key for key in keys]
            storage.put_many(zip(named, data, strict=True))
        return len(table), sum(sizes)


def _key_encoder(node: ArrayNode) -> Callable[[tuple[int, ...]], str]:
    return ArrayV3Metadata.from_dict(document_of(node)).encode_chunk_key
