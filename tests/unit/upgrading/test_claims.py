"""What `upgrade.json` says is not trusted."""

from __future__ import annotations

import json

import pytest

from frazil.errors import SessionStateError
from frazil.upgrading.claims import ClaimRecord, Work, decode_claim


def test_a_claim_comes_back_as_it_was() -> None:
    record = ClaimRecord(Work.UPGRADE, "spec-v2", "link", holders=3)
    assert decode_claim(record.encode()) == record


@pytest.mark.parametrize(
    "changed",
    [
        {"work": "else"},
        {"holders": "2"},
        {"holders": -1},
        {"holders": 1e300},
        {"id": None},
        {"to": ["spec-v2"]},
        {"is_ended": 0},
        {"more": 1},
    ],
)
def test_a_claim_with_other_fields_is_refused(changed: dict[str, object]) -> None:
    said = {**json.loads(ClaimRecord(Work.UNDO).encode()), **changed}
    with pytest.raises(SessionStateError, match="cannot be understood"):
        decode_claim(json.dumps(said).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"work": {}}'])
def test_a_claim_that_is_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(SessionStateError, match="cannot be understood"):
        decode_claim(data)
