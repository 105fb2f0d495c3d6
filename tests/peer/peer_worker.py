"""Serve one icechunk module over stdin and stdout: a line of JSON in, a line of JSON out.

Started as `python -m tests.peer.peer_worker MODULE` in a peer's environment with the official
package, or in ours with `frazil.icechunk`; both answer the same commands, so that what one
writes can be compared with what the other reads. Imports only the module, zarr and numpy.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import zarr

from tests.peer.peer_describe import describe, describe_diff
from tests.peer.peer_samples import virtual_source, write_sample
from tests.peer.peer_views import VIEWS
from tests.support.edits import begin, make_base


class Worker:
    """Commands on repositories on local disk; sessions stay open between two commands.

    Every method without an underscore is a command. `path` is the repository's folder, `data`
    the folder that virtual references may point into.
    """

    def __init__(self, module: str) -> None:
        self._icechunk: Any = importlib.import_module(module)
        self._sessions: dict[int, Any] = {}

    # Opening

    def _open(self, path: str, data: str | None = None) -> Any:
        storage = self._icechunk.local_filesystem_storage(path)
        return self._icechunk.Repository.open(storage, **self._authorised(data))

    def _authorised(self, data: str | None) -> dict[str, Any]:
        if data is None:
            return {}
        access = getattr(self._icechunk.credentials, "LocalFileSystemAccess", None)
        return {"authorize_virtual_chunk_access": {f"{Path(data).as_uri()}/": access}}

    def hello(self) -> dict[str, Any]:
        """Who is answering."""
        return {
            "module": self._icechunk.__name__,
            "version": getattr(self._icechunk, "__version__", ""),
            "python": sys.version.split()[0],
            "zarr": zarr.__version__,
        }

    def create(
        self,
        path: str,
        spec: int,
        data: str | None = None,
        split: bool = False,
        log_length: int | None = None,
    ) -> None:
        """Create a repository of the given spec, with a container for `data` if there is one."""
        icechunk = self._icechunk
        config = icechunk.RepositoryConfig.default()
        if data is not None:
            virtual_source(Path(data))
            store = icechunk.local_filesystem_store(data)
            container = icechunk.VirtualChunkContainer(f"{Path(data).as_uri()}/", store)
            config.set_virtual_chunk_container(container)
        if split:
            config.manifest = icechunk.ManifestConfig(splitting=self._split_rules())
        if log_length is not None:
            config.num_updates_per_repo_info_file = log_length
        create = icechunk.Repository.create
        storage = icechunk.local_filesystem_storage(path)
        create(storage, config, **self._authorised(data), **self._spec(spec)).save_config()

    def _spec(self, spec: int) -> dict[str, int]:
        """The argument for the spec; the oldest peer writes spec v1 only and has none."""
        known = inspect.signature(self._icechunk.Repository.create).parameters
        return {"spec_version": spec} if "spec_version" in known else {}

    def _split_rules(self) -> Any:
        condition = self._icechunk.ManifestSplitCondition
        axis = self._icechunk.ManifestSplitDimCondition
        return self._icechunk.ManifestSplittingConfig.from_dict(
            {
                condition.name_matches("^named$"): {axis.DimensionName("^time$"): 4},
                condition.path_matches("plain"): {axis.Axis(1): 2, axis.Any(): 5},
                condition.AnyArray(): {axis.Any(): 3},
            }
        )

    def configure(self, path: str) -> None:
        """Save a configuration with settings of every kind into a repository."""
        storage = self._icechunk.local_filesystem_storage(path)
        repo = self._icechunk.Repository.open(storage, self._settings())
        repo.save_config()

    def configured(self, path: str) -> dict[str, Any]:
        """Tell for each part of the stored configuration whether it is what `configure` saved."""
        stored = self._icechunk.Repository.fetch_config(
            self._icechunk.local_filesystem_storage(path)
        )
        expected = self._settings()
        names = ("inline_chunk_threshold_bytes", "get_partial_values_concurrency", "compression")
        found = {
            name: bool(getattr(stored, name) == getattr(expected, name))
            for name in (*names, "max_concurrent_requests", "caching")
        }
        found["splitting"] = bool(stored.manifest.splitting == expected.manifest.splitting)
        found["preload"] = stored.manifest.preload.max_total_refs == 77
        prefixes = sorted(stored.virtual_chunk_containers)
        return found | {"containers": prefixes}

    def _settings(self) -> Any:
        icechunk = self._icechunk
        condition = icechunk.ManifestPreloadCondition
        preload_if = condition.and_conditions(
            [
                condition.or_conditions([condition.name_matches("^t"), condition.true()]),
                condition.num_refs(1, 99),
            ]
        )
        preload = icechunk.ManifestPreloadConfig(max_total_refs=77, preload_if=preload_if)
        config = icechunk.RepositoryConfig(
            inline_chunk_threshold_bytes=12,
            get_partial_values_concurrency=3,
            max_concurrent_requests=9,
            compression=icechunk.CompressionConfig(level=7),
            caching=icechunk.CachingConfig(num_snapshot_nodes=5, num_bytes_chunks=1000),
            manifest=icechunk.ManifestConfig(preload=preload, splitting=self._split_rules()),
        )
        stores = {
            "s3://bucket/prefix/": icechunk.s3_store(region="eu-west-1", allow_http=True),
            "gcs://bucket/": icechunk.gcs_store({"a": "b"}),
            "http://example.org/data/": icechunk.http_store({}),
            "file:///data/": icechunk.local_filesystem_store("/data"),
        }
        for prefix, store in stores.items():
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
        return config

    # Reading

    def describe(self, path: str, data: str | None = None) -> dict[str, Any]:
        """The whole repository as plain values."""
        return describe(self._open(path, data))

    def values(
        self, path: str, array: str, branch: str = "main", data: str | None = None
    ) -> list[Any]:
        """All values of an array at a branch."""
        store = self._open(path, data).readonly_session(branch).store
        found: list[Any] = np.asarray(zarr.open_array(store, path=array, mode="r")[...]).tolist()
        return found

    def value_as_of(self, path: str, array: str, when: str) -> list[Any]:
        """All values of an array of `main` at a time."""
        session = self._open(path).readonly_session(
            branch="main", as_of=datetime.fromisoformat(when)
        )
        opened = zarr.open_array(session.store, path=array, mode="r")
        found: list[Any] = np.asarray(opened[...]).tolist()
        return found

    def history(self, path: str, branch: str = "main") -> list[list[str]]:
        """Id, message and time of each snapshot of a branch, newest first."""
        infos = self._open(path).ancestry(branch=branch)
        return [[info.id, info.message, info.written_at.isoformat()] for info in infos]

    def diff(self, path: str, start: str, end: str) -> dict[str, Any]:
        """What has changed between two snapshots."""
        repo = self._open(path)
        return describe_diff(repo.diff(from_snapshot_id=start, to_snapshot_id=end))

    # Writing

    def write(self, path: str, sample: str, data: str | None = None, branch: str = "main") -> str:
        """Write a named sample and commit it."""
        session = self._open(path, data).writable_session(branch)
        write_sample(self._icechunk, session.store, sample, Path(data or "."))
        return self._commit(session, sample, {"sample": sample, "numbers": [1, 2.5, None]})

    def _commit(self, session: Any, message: str, metadata: dict[str, Any] | None = None) -> str:
        return str(session.commit(message, metadata))

    def new_array(self, path: str, array: str, length: int, branch: str = "main") -> str:
        """Create an array of zeros in chunks of one, and commit."""
        session = self._open(path).writable_session(branch)
        zarr.create_array(
            session.store, name=array, shape=(length,), chunks=(1,), dtype="i4", fill_value=0
        )
        return self._commit(session, f"new {array}")

    def put(
        self, path: str, array: str, index: int, value: int, message: str, branch: str = "main"
    ) -> str:
        """Set one element of an array and commit."""
        session = self._open(path).writable_session(branch)
        zarr.open_array(session.store, path=array, mode="r+")[index] = value
        return self._commit(session, message)

    def resize(self, path: str, array: str, length: int) -> str:
        """Resize an array and commit."""
        session = self._open(path).writable_session("main")
        zarr.open_array(session.store, path=array, mode="r+").resize((length,))
        return self._commit(session, f"resize {array} to {length}")

    def delete_node(self, path: str, node: str) -> str:
        """Delete a node with everything below it, and commit."""
        session = self._open(path).writable_session("main")
        del zarr.open_group(session.store, mode="r+")[node]
        return self._commit(session, f"delete {node}")

    def move(self, path: str, moves: list[list[str]], message: str) -> str:
        """Move nodes and commit."""
        session = self._open(path).rearrange_session("main")
        for source, target in moves:
            session.move(source, target)
        return self._commit(session, message)

    def amend(self, path: str, array: str, index: int, value: int, message: str) -> str:
        """Set one element as part of the newest commit."""
        session = self._open(path).writable_session("main")
        zarr.open_array(session.store, path=array, mode="r+")[index] = value
        return str(session.amend(message))

    def flush(self, path: str, array: str, index: int, value: int, message: str) -> str:
        """Write a snapshot that no branch points to."""
        session = self._open(path).writable_session("main")
        zarr.open_array(session.store, path=array, mode="r+")[index] = value
        return str(session.flush(message))

    # Refs and repository

    def branch(self, path: str, name: str, snapshot: str) -> None:
        """Create a branch."""
        self._open(path).create_branch(name, snapshot)

    def reset(self, path: str, name: str, snapshot: str) -> None:
        """Point a branch elsewhere."""
        self._open(path).reset_branch(name, snapshot)

    def delete_branch(self, path: str, name: str) -> None:
        """Delete a branch."""
        self._open(path).delete_branch(name)

    def tag(self, path: str, name: str, snapshot: str) -> None:
        """Create a tag."""
        self._open(path).create_tag(name, snapshot)

    def delete_tag(self, path: str, name: str) -> None:
        """Delete a tag."""
        self._open(path).delete_tag(name)

    def metadata(self, path: str, metadata: dict[str, Any]) -> None:
        """Replace the repository's own metadata."""
        self._open(path).set_metadata(metadata)

    def flag(self, path: str, name: str, value: bool | None) -> None:
        """Set or clear a feature flag."""
        self._open(path).set_feature_flag(name, value)

    # Two writers

    def begin(self, path: str, number: int, branch: str = "main") -> str:
        """Open a writable session under a number and keep it."""
        session = self._open(path).writable_session(branch)
        self._sessions[number] = session
        return str(session.snapshot_id)

    def change(self, number: int, array: str, index: int, value: int) -> None:
        """Set one element in a kept session."""
        zarr.open_array(self._sessions[number].store, path=array, mode="r+")[index] = value

    def finish(self, number: int, message: str, solver: str | None = None) -> str:
        """Commit a kept session, rebasing with a solver if one is named."""
        session = self._sessions[number]
        options = {} if solver is None else {"rebase_with": self._solver(solver)}
        return str(session.commit(message, **options))

    def _solver(self, name: str) -> Any:
        if name == "detect":
            return self._icechunk.ConflictDetector()
        side = self._icechunk.VersionSelection
        chosen = {"ours": side.UseOurs, "theirs": side.UseTheirs, "fail": side.Fail}
        return self._icechunk.BasicConflictSolver(
            on_chunk_conflict=chosen.get(name, side.UseOurs),
            fail_on_delete_of_updated_array=name == "keep arrays",
            fail_on_delete_of_updated_group=name == "keep groups",
        )

    def edit(self, path: str, name: str | None = None) -> None:
        """Commit one of the edits that may race, or what there is before them."""
        repo = self._open(path)
        if name is None:
            session = repo.writable_session("main")
            make_base(zarr.create_group(session.store))
        else:
            session = begin(repo, name)
        session.commit(name or "base")

    def verdicts(
        self, spec: int, ours: str, others: list[str], solvers: list[str]
    ) -> dict[str, list[str]]:
        """Which solvers let an edit be committed on top of each of some others."""
        storage = self._icechunk.in_memory_storage()
        repo = self._icechunk.Repository.create(storage, **self._spec(spec))
        session = repo.writable_session("main")
        make_base(zarr.create_group(session.store))
        base = session.commit("base")
        found: dict[str, list[str]] = {}
        branches, icechunk = map(str, itertools.count()), self._icechunk
        refusals = (icechunk.RebaseFailedError, icechunk.ConflictError, icechunk.IcechunkError)
        for theirs in others:
            mine = None
            for solver in solvers:
                if mine is None:
                    repo.create_branch(branch := next(branches), base)
                    mine = begin(repo, ours, branch=branch)
                    begin(repo, theirs, branch=branch).commit("theirs")
                try:
                    mine.commit("ours", rebase_with=self._solver(solver))
                except refusals:
                    continue
                if solver == "detect":  # there is nothing to solve
                    found[theirs] = solvers
                    break
                found.setdefault(theirs, []).append(solver)
                mine = None
        return found

    # Maintenance

    def expire(
        self, path: str, older_than: str, tags: bool = False, branches: bool = False
    ) -> list[str]:
        """Expire snapshots and tell which were released."""
        released = self._open(path).expire_snapshots(
            datetime.fromisoformat(older_than),
            delete_expired_tags=tags,
            delete_expired_branches=branches,
        )
        return sorted(released)

    def collect(self, path: str, older_than: str, dry_run: bool = False) -> dict[str, int]:
        """Collect garbage and tell what was deleted."""
        summary = self._open(path).garbage_collect(
            datetime.fromisoformat(older_than), dry_run=dry_run
        )
        names = ("bytes", "chunks", "manifests", "snapshots", "transaction_logs")
        return {name: int(getattr(summary, f"{name}_deleted")) for name in names}

    def rewrite(self, path: str, message: str) -> str:
        """Rebuild every manifest by the stored split rules."""
        return str(self._open(path).rewrite_manifests(message, branch="main"))

    def view(self, path: str, name: str) -> Any:
        """What a program sees, as one of the functions of `peer_views` tells it."""
        return VIEWS[name](self._icechunk, Path(path))

    def _storage(self, storage: dict[str, Any]) -> Any:
        return getattr(self._icechunk.storage, storage["function"])(**storage["options"])

    def s3_write(
        self, storage: dict[str, Any], spec: int, environment: dict[str, str] | None = None
    ) -> list[Any]:
        """Create a repository in an object store, with an array and a second branch."""
        with _set(environment or {}):
            repo = self._icechunk.Repository.create(self._storage(storage), spec_version=spec)
            session = repo.writable_session("main")
            array = zarr.create_array(session.store, name="a", shape=(3,), chunks=(1,), dtype="i4")
            array[:] = 5
            repo.create_branch("dev", session.commit("written"))
        return self.s3_read(storage, environment)

    def s3_read(
        self, storage: dict[str, Any], environment: dict[str, str] | None = None
    ) -> list[Any]:
        """Open a repository in an object store and tell what is there."""
        with _set(environment or {}):
            repo = self._icechunk.Repository.open(self._storage(storage))
            array = zarr.open_array(repo.readonly_session("dev").store, path="a", mode="r")
            messages = [info.message for info in repo.ancestry(branch="main")]
            return [np.asarray(array[:]).tolist(), sorted(repo.list_branches()), messages]

    def upgrade(self, path: str) -> None:
        """Turn a repository of spec v1 into v2."""
        self._icechunk.upgrade_icechunk_repository(self._open(path), dry_run=False)


@contextlib.contextmanager
def _set(environment: dict[str, str]) -> Iterator[None]:
    """Environment variables for the length of a block."""
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in environment:
            del os.environ[name]


def answer(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    """Run one command and put its result or its error in words."""
    command: Callable[..., Any] = getattr(worker, request["command"])
    try:
        return {"result": command(**request["arguments"])}
    except Exception as error:  # the outermost line of this process: everything is reported
        kind = getattr(error, "kind", None)
        return {
            "error": type(error).__name__,
            "kind": None if kind is None else str(getattr(kind, "value", kind)),
            "message": str(error),
            "trace": traceback.format_exc(),
        }


def serve(worker: Worker, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until the input ends."""
    for line in requests:
        replies.write(json.dumps(answer(worker, json.loads(line))) + "\n")
        replies.flush()


def main() -> None:
    """Keep stdout for replies alone; whatever else is printed, by Rust code too, goes to stderr."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        serve(Worker(sys.argv[1]), sys.stdin, replies)


if __name__ == "__main__":
    main()
