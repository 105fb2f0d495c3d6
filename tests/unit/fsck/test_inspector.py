"""What one portion of a check returns."""

from __future__ import annotations

import pickle

import numpy as np

from frazil.fsck.checking import read_history
from frazil.fsck.findings import SHOWN_CHUNKS, Code
from frazil.fsck.history import SnapshotNode
from frazil.fsck.inspector import Inspector
from frazil.fsck.snapshot_rules import ManifestUse
from frazil.ids import ChunkId
from frazil.model.chunks import ChunkTable, NativeRef
from frazil.storage.assets import log_key, snapshot_key
from frazil.transaction.opened import context_of
from tests.unit.fsck.samples import Sick


def inspector(
    sick: Sick, *, whole: bool = True, deep: bool = False, virtual: bool = False
) -> Inspector:
    return Inspector(context_of(sick.repository), whole, deep, virtual)


def links(checks: Inspector) -> list[SnapshotNode]:
    """Everything that refs lead to."""
    history, _ = read_history(checks.context, checks.files)
    return history.links(history.reached(history.refs.values()))


def test_commits_return_what_arrays_say_of_manifests(sick: Sick) -> None:
    checks = inspector(sick)
    done = checks.commits(links(checks))
    assert (done.findings, done.is_readable) == ([], True)
    assert done.logs == len(links(checks)) - (sick.spec == 1)  # the first has one since spec 2
    assert done.uses.keys() == done.sizes.keys()
    uses = done.uses[sick.manifest_id()]
    assert {(use.path, use.extents, use.document) for use in uses} == {("/a", ((0, 4),), b"")}


def test_documents_go_along_only_to_decode_chunks(sick: Sick) -> None:
    checks = inspector(sick, deep=True)
    done = checks.commits(links(checks))
    documents = {use.document for use in done.uses[sick.manifest_id()]}
    assert documents == {sick.node("/a").user_data}


def test_a_lost_snapshot_makes_a_portion_unreadable(sick: Sick) -> None:
    checks = inspector(sick)
    wanted, tip = links(checks), sick.tip
    sick.delete(snapshot_key(tip))
    done = inspector(sick, whole=False).commits(wanted)
    assert not done.is_readable
    assert [(each.code, each.target) for each in done.findings] == [
        (Code.SNAPSHOT_MISSING, snapshot_key(tip))
    ]


def test_logs_are_left_alone_where_references_alone_are_checked(sick: Sick) -> None:
    wanted = links(inspector(sick))
    sick.delete(log_key(sick.tip))
    assert inspector(sick, whole=False).commits(wanted).findings == []
    assert [each.code for each in inspector(sick).commits(wanted).findings] == [Code.LOG_MISSING]


def test_a_manifest_returns_each_object_once_with_the_longest_end(sick: Sick) -> None:
    pack, other = ChunkId(b"a" * 12), ChunkId(b"b" * 12)
    refs = [NativeRef(pack, 0, 5), NativeRef(pack, 10, 5), NativeRef(other, 0, 3)]
    table = ChunkTable.from_refs(1, [((n,), ref) for n, ref in enumerate(refs)])
    sick.write_manifest({sick.node("/a").id: table})
    [found] = inspector(sick).manifests([(sick.manifest_id(), set())])
    assert [bytes(row) for row in found.objects] == [pack, other]
    assert found.ends.tolist() == [15, 3]
    assert (found.native, found.virtual, found.decoded.chunks) == (3, 0, 0)


def test_sources_are_told_only_if_they_are_to_be_asked(sick: Sick) -> None:
    given = [(sick.manifest_id("/v"), set[ManifestUse]())]
    [found] = inspector(sick).manifests(given)
    assert (found.virtual, dict(found.sources)) == (2, {})
    [found] = inspector(sick, virtual=True).manifests(given)
    assert sorted(found.sources.values()) == [(1, 1), (2, 1)]


def test_a_manifest_that_is_gone_needs_nothing_and_is_not_readable(sick: Sick) -> None:
    name = sick.manifest_id()
    sick.delete(sick.manifest_key())
    [found] = inspector(sick).manifests([(name, set())])
    assert [each.code for each in found.findings] == [Code.MANIFEST_MISSING]
    assert (found.is_readable, found.native, len(found.objects)) == (False, 0, 0)


def test_users_of_an_object_are_named_and_counted(sick: Sick) -> None:
    pack = ChunkId(b"a" * 12)
    refs = [((n,), NativeRef(pack, n, 4)) for n in range(SHOWN_CHUNKS + 2)]
    node = sick.node("/a")
    sick.write_manifest({node.id: ChunkTable.from_refs(1, refs)})
    wanted = np.frombuffer(pack, np.uint8).reshape(1, -1)
    users = inspector(sick).users((sick.manifest_id(), wanted, {node.id: "/a"}))
    user = users[bytes(pack)]
    assert (user.path, user.references, user.end) == ("/a", SHOWN_CHUNKS + 2, SHOWN_CHUNKS + 5)
    assert user.chunks == [(n,) for n in range(SHOWN_CHUNKS)]


def test_another_process_checks_the_same(sick: Sick) -> None:
    checks = inspector(sick, deep=True)
    there = pickle.loads(pickle.dumps(checks))
    assert (there.whole, there.deep, there.virtual) == (True, True, False)
    assert there.files is not checks.files
    assert there.commits(links(checks)).uses == checks.commits(links(checks)).uses
