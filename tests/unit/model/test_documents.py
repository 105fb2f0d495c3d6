"""JSON of others: read within bounds, and damage is told."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, FormatError
from frazil.model import documents
from frazil.model.documents import read_document, read_json


def test_a_document_is_a_json_object() -> None:
    assert read_document(b'{"a": [1]}') == {"a": [1]}
    for wrong, why in ((b"{", "not JSON"), (b"[1]", "not a JSON object"), (b"\xff", "not JSON")):
        with pytest.raises(FormatError, match=why) as caught:
            read_document(wrong, path="/t")
        assert caught.value.kind is ErrorKind.BAD_METADATA
        assert "/t" in str(caught.value)


def test_depth_is_an_error_and_no_crash() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        read_json("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("is_text", [False, True])
def test_more_values_than_a_text_of_its_size_would_have(
    monkeypatch: pytest.MonkeyPatch, is_text: bool
) -> None:
    monkeypatch.setattr(documents, "MANY_VALUES", 10)
    dense, sparse = "[" + "1," * 200 + "1]", "[" + "1," * 9 + '"' + "x" * 400 + '"]'
    with pytest.raises(ValueError, match="it has 201 values"):
        read_json(dense if is_text else dense.encode())
    assert len(read_json(sparse if is_text else sparse.encode())) == 10
