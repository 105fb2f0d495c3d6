"""Reading and writing the files of the format."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from bench.tuning.sweep import HIGH, KIB, LOW, MIB, Row, Work
from bench.tuning.tables import NODE, RANDOM, groups, manifest, native, put_groups, references
from frazil import Repository
from frazil.flatbuf.reader import Buffer
from frazil.formats import snapshot_nodes
from frazil.formats.envelope import FileKind, seal
from frazil.formats.manifest import decode_manifest, encode_manifest
from frazil.formats.repo_info import decode_repo_info
from frazil.ids import ManifestId, SnapshotId
from frazil.model.strings import StringPool
from frazil.storage.memory import MemoryStorage

TWO_WAYS = (LOW, HIGH)


@cache
def repo_object(tags: int) -> bytes:
    repo = Repository.create(storage := MemoryStorage())
    for number in range(tags):
        repo.create_tag(f"tag-{number}", repo.lookup_branch("main"))
    blob = storage.get("repo")
    assert blob is not None
    return blob


def read_tags(count: int) -> Work:
    blob = repo_object(count)
    return lambda: decode_repo_info(blob, key="repo")


def check_paths(length: int) -> Work:
    """2,000 paths, one of them so long."""
    texts = sorted([f"/group-{n:06}" for n in range(2000)] + ["/" + "x" * length])
    data = "".join(texts).encode()
    pool = StringPool(data, np.cumsum([len(text) for text in texts], dtype=np.int64))
    buffer = Buffer(bytes(64), "snapshot")
    return lambda: snapshot_nodes._check_paths(buffer, pool)


def find_groups(count: int) -> Work:
    """So many lookups among 2,000 nodes that were just read."""
    repo = Repository.open(groups(2000))
    assets = repo.readonly_session("main").state.context.assets
    nodes = assets.fresh_snapshot(SnapshotId.parse(repo.lookup_branch("main"))).nodes
    assert isinstance(nodes, snapshot_nodes.NodeTable)
    return lambda: [nodes.find(f"/g{n}") for n in range(count)]


def search(count: int) -> Work:
    opened = decode_manifest(manifest(count), key="m")
    return lambda: opened.find(NODE, (count // 2,))


def change_refs(count: int, changed: int = 1) -> Work:
    session = Repository.open(references(count)).writable_session("main")
    for number in range(changed):
        session.store.set_virtual_ref(
            f"a/c/{number * 7}", "s3://b/new", offset=0, length=1, validate_container=False
        )
    return lambda: session.commit("changed")


def commit_to_groups(count: int) -> Work:
    repo = put_groups(Repository.create(MemoryStorage()), count, 0)
    return lambda: [put_groups(repo, 1, value) for value in range(1, 5)]


def many_commits() -> Work:
    """A hundred commits to a new repository."""
    repo = Repository.create(MemoryStorage())
    return lambda: [put_groups(repo, 1, value) for value in range(100)]


def write_manifest(count: int) -> Work:
    table = native(count)
    return lambda: encode_manifest(ManifestId(bytes(12)), {NODE: table}, spec=2)


def seal_body(size: int) -> Work:
    body = RANDOM.integers(0, 16, size, np.uint8).tobytes()
    return lambda: [seal(body, FileKind.SNAPSHOT, spec=2) for _ in range(4 * MIB // size)]


ROWS = [
    *(
        Row("flatbuf.FEW_REFS", partial(read_tags, n), (HIGH, LOW), note=f"{n} tags")
        for n in (12, 48)
    ),
    *(
        Row("flatbuf.LONG_PATH", partial(check_paths, n), TWO_WAYS, note=f"{n}")
        for n in (32, 256, 2048)
    ),
    *(
        Row(
            "flatbuf.MANY_FOUND", partial(find_groups, n), (LOW, 4, 16, HIGH), True, f"{n} of 2,000"
        )
        for n in (250, 500, 2000)
    ),
    *(
        Row("flatbuf.FINDS_PER_DECODE", partial(search, n), TWO_WAYS, True, f"{n}")
        for n in (5000, 50_000)
    ),
    Row("flatbuf.PATCHED_FROM", partial(change_refs, 20_000), TWO_WAYS, is_fresh=True),
    Row("flatbuf.PATCHED_ROWS", partial(change_refs, 100_000, 32), TWO_WAYS, is_fresh=True),
    *(
        Row("flatbuf.KEPT_NODES", partial(commit_to_groups, n), (HIGH, LOW), True, f"{n}")
        for n in (25, 100)
    ),
    Row("flatbuf.FREE_GROWTH", many_commits, is_fresh=True),
    *(
        Row("flatbuf.MANY_TABLES", partial(write_manifest, n), TWO_WAYS, note=f"{n}")
        for n in (4096, 32768, 1_000_000)
    ),
    *(
        Row("flatbuf.SMALL_BODY", partial(seal_body, n * KIB), TWO_WAYS, note=f"{n} KiB")
        for n in (16, 1024, 4096)
    ),
    Row("flatbuf.BODY_PART", partial(write_manifest, 2_000_000)),
]
