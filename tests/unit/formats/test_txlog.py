"""Transaction logs: official files, order, moves, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.strided import encode_tables
from frazil.flatbuf.writer import FlatWriter
from frazil.formats.envelope import FileKind, seal, seal_table, unseal
from frazil.formats.txlog import ARRAY_CHUNKS, ID_LISTS, LOG, decode_log, encode_log
from frazil.ids import INITIAL_SNAPSHOT_ID, NodeId, SnapshotId
from frazil.model.history import Move, TransactionLog
from tests.support.official_files import INITIAL_LOG_V2, LOG_V1, LOG_V2

KEY = "transactions/TEST"
ID = SnapshotId(range(12))
NODES = tuple(NodeId(bytes([i]) * 8) for i in range(1, 9))


def contents(log: TransactionLog) -> dict[str, object]:
    """A log as something that can be compared."""
    chunks = {node: coords.tolist() for node, coords in log.updated_chunks.items()}
    ids = {name: getattr(log, name) for name in ID_LISTS}
    return {"id": log.id, **ids, "updated_chunks": chunks, "moved_nodes": log.moved_nodes}


def log_with_chunks(*lists: tuple[NodeId, list[list[int]]]) -> bytes:
    """A log whose chunk lists are exactly these, in this order."""
    writer = FlatWriter()
    tables = []
    for node, coords in lists:
        blocks = encode_tables(np.array(coords or np.zeros((0, 1)), np.uint32))
        tables.append(writer.table(ARRAY_CHUNKS, bytes(node), writer.table_blocks(blocks)))
    ids = [writer.structs(b"", 0, 1)] * 6
    root = writer.table(LOG, bytes(ID), *ids, writer.offsets(tables))
    return seal_table(writer, root, FileKind.TRANSACTION_LOG, spec=1)


class TestOfficialFiles:
    def test_first_log_holds_nothing_but_its_id(self) -> None:
        log = decode_log(INITIAL_LOG_V2, key=KEY)
        assert contents(log) == contents(TransactionLog(INITIAL_SNAPSHOT_ID))

    @pytest.mark.parametrize(
        ("blob", "array"), [(LOG_V2, "NT8VBT01SHYNT"), (LOG_V1, "N8MQ36MAXNGJT")]
    )
    def test_new_nodes_and_chunks(self, blob: bytes, array: str) -> None:
        log = decode_log(blob, key=KEY)
        node = NodeId.parse(array)
        assert log.new_arrays == (node,)
        assert len(log.new_groups) == 1
        assert {n: c.tolist() for n, c in log.updated_chunks.items()} == {node: [[0], [1], [2]]}
        again = decode_log(encode_log(log, spec=blob[36]), key=KEY)
        assert contents(again) == contents(log)


class TestRoundTrip:
    @pytest.mark.parametrize("count", [1, 16, 17, 3000])
    @pytest.mark.parametrize("ndim", [1, 3])
    def test_any_number_of_chunks(self, count: int, ndim: int) -> None:
        coords = np.arange(count * ndim, dtype=np.uint32).reshape(count, ndim)
        chunks = {NODES[2]: coords, NODES[1]: coords[:1], NODES[4]: coords[-20:]}
        log = TransactionLog(ID, updated_chunks=dict(sorted(chunks.items())))
        assert contents(decode_log(encode_log(log, spec=2), key=KEY)) == contents(log)

    @pytest.mark.parametrize("spec", [1, 2])
    def test_every_list(self, spec: int) -> None:
        log = TransactionLog(
            ID,
            new_groups=NODES[:2],
            new_arrays=NODES[2:3],
            deleted_groups=NODES[3:4],
            deleted_arrays=NODES[4:6],
            updated_arrays=NODES[6:7],
            updated_groups=NODES[7:],
            updated_chunks={
                NODES[0]: np.zeros((1, 0), np.uint32),
                NODES[2]: np.array([[0, 1], [2, 0], [2**32 - 1, 5]], np.uint32),
                NODES[3]: np.zeros((0, 0), np.uint32),
            },
            moved_nodes=(Move("/é", "/a", NODES[0], False), Move("/x/y", "/b", NODES[2], True)),
        )
        assert contents(decode_log(encode_log(log, spec=spec), key=KEY)) == contents(log)

    def test_lists_are_written_in_order(self) -> None:
        log = TransactionLog(
            ID,
            new_groups=NODES[::-1],
            moved_nodes=tuple(
                Move("/from", target, NODES[0], True) for target in ("/aa", "/a-b", "/a/b", "/a")
            ),
        )
        found = decode_log(encode_log(log, spec=2), key=KEY)
        assert found.new_groups == NODES
        assert [move.target for move in found.moved_nodes] == ["/a", "/a/b", "/a-b", "/aa"]

    @pytest.mark.parametrize("spec", [1, 2])
    def test_list_of_moves_is_always_there(self, spec: int) -> None:
        body = unseal(encode_log(TransactionLog(ID), spec=spec), None, key=KEY).body
        assert Buffer(body, KEY).root().vector(8, 4) is not None

    def test_many_chunks(self) -> None:
        rows = np.arange(50_000)
        coords = np.stack([rows // 365, rows % 365], axis=1).astype(np.uint32)
        log = TransactionLog(ID, updated_chunks={NODES[0]: coords, NODES[1]: coords[:7]})
        found = decode_log(encode_log(log, spec=2), key=KEY).updated_chunks
        assert np.array_equal(found[NODES[0]], coords)
        assert np.array_equal(found[NODES[1]], coords[:7])


class TestOldWriters:
    def test_unsorted_and_repeated_chunks_are_put_in_order(self) -> None:
        blob = log_with_chunks((NODES[0], [[5, 0], [1, 9], [5, 0], [1, 2]]))
        found = decode_log(blob, key=KEY).updated_chunks
        assert found[NODES[0]].tolist() == [[1, 2], [1, 9], [5, 0]]

    def test_array_without_chunks_is_kept(self) -> None:
        found = decode_log(log_with_chunks((NODES[1], []), (NODES[0], [[3]])), key=KEY)
        assert list(found.updated_chunks) == [NODES[0], NODES[1]]
        assert len(found.updated_chunks[NODES[1]]) == 0


class TestRefusals:
    def test_two_lists_for_one_array(self) -> None:
        with pytest.raises(FormatError, match="two lists"):
            decode_log(log_with_chunks((NODES[0], [[1]]), (NODES[0], [[2]])), key=KEY)

    def test_missing_list(self) -> None:
        writer = FlatWriter()
        blob = seal_table(writer, writer.table(LOG, bytes(ID)), FileKind.TRANSACTION_LOG, spec=2)
        with pytest.raises(FormatError, match="missing required field new_groups") as caught:
            decode_log(blob, key=KEY)
        assert caught.value.facts["key"] == KEY

    def test_another_kind_of_file(self) -> None:
        with pytest.raises(FormatError, match="another kind"):
            decode_log(seal(b"", FileKind.MANIFEST, spec=2), key=KEY)
