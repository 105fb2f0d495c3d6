"""The state file of G1 may name another place for all other files, and is not obeyed blindly."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import frazil
from frazil.errors import ErrorKind, FrazilError, InvalidInputError, ReadOnlyError
from frazil.fsck import fsck
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.generations import Spec
from tests.support.nodes import contents
from tests.support.old_repositories import make_small, told
from tests.support.web import WebServer


def made(folder: Path) -> Repository:
    return make_small(LocalStorage(folder), "g1")


def point_to(folder: Path, store_root: str, names: dict[str, object] | None = None) -> None:
    state = folder / "state.json"
    known = json.loads(state.read_text())
    state.write_text(json.dumps(known | (names or {}) | {"store_root": store_root}))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "url": lambda folder: folder.as_uri(),
    "path": str,
    "above": lambda folder: f"../{folder.name}",
    "beside": lambda folder: f"sub/../../{folder.name}",
    "own name longer": lambda folder: f"{folder.parent.as_uri()}/here/../{folder.name}",
    "options": lambda folder: f"{folder.as_uri()}?anonymous=true",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_files_elsewhere_are_neither_read_nor_written_nor_deleted_unasked(
    spelling: str, tmp_path: Path
) -> None:
    """A state file from elsewhere could otherwise aim a collection at somebody's repository."""
    victim, here = made(tmp_path / "there"), made(tmp_path / "here")
    before = files_of(tmp_path / "there")
    state = json.loads((tmp_path / "there" / "state.json").read_text())
    first = state["snapshots"][0]
    refs = {"main": {"name": "main", "snapshot-id": first["snapshot-id"], "type": "branch"}}
    root = SPELLINGS[spelling](tmp_path / "there")
    point_to(tmp_path / "here", root, {"snapshots": [first], "refs": refs})
    uses: list[Callable[[], object]] = [
        lambda: Repository.open(tmp_path / "here"),
        lambda: Repository.open(here.storage).garbage_collect(
            datetime.now(UTC) + timedelta(days=1)
        ),
        lambda: frazil.upgrade_older(tmp_path / "here"),
        lambda: frazil.plan_upgrade(tmp_path / "here"),
        lambda: fsck(here.storage),
    ]
    for use in uses:
        with pytest.raises(InvalidInputError, match="pass it as store_root") as caught:
            use()
        assert caught.value.kind == ErrorKind.NOT_ALLOWED
        assert "there" in str(caught.value)
    assert files_of(tmp_path / "there") == before
    assert contents(victim.readonly_session("main"))


def test_no_request_goes_to_an_address_that_a_state_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("something was opened")

    made(tmp_path / "here")
    monkeypatch.setattr("frazil.storage.object.ObjectStorage.__init__", opened)
    for root in ("s3://bucket/prefix?endpoint_url=http://127.0.0.1:9", "https://example.org/x"):
        point_to(tmp_path / "here", root)
        with pytest.raises(InvalidInputError, match="store_root"):
            Repository.open(tmp_path / "here")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_place_that_the_caller_opened_is_read_as_it_was_opened(
    spelling: str, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    before = told(made(here))
    there.mkdir()
    for folder in ("s", "i", "c"):
        (here / folder).rename(there / folder)
    point_to(here, SPELLINGS[spelling](there))
    repository = Repository.open(here, store_root=LocalStorage(there))
    assert told(repository) == before
    again = pickle.loads(pickle.dumps(repository.readonly_session("main")))
    assert contents(again) == contents(repository.readonly_session("main"))
    assert told(Repository.open(here, store_root=str(there))) == before
    assert told(Repository.open(here, store_root=there.as_uri())) == before


CHANGES: dict[str, Callable[[Repository], object]] = {
    "commit": lambda repository: repository.writable_session("main"),
    "move": lambda repository: repository.rearrange_session("main"),
    "collect": lambda repository: repository.garbage_collect(datetime.now(UTC)),
    "expire": lambda repository: repository.expire_snapshots(datetime.now(UTC)),
    "amend": lambda repository: repository.transaction("main", message="x").__enter__(),
    "clean up": lambda repository: frazil.clean_upgrade(
        repository.storage, store_root=context_of(repository).store_root
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_place_elsewhere_is_only_read(change: str, tmp_path: Path) -> None:
    """Whoever writes the state file decides what is garbage there, and what a commit builds on."""
    here, there = tmp_path / "here", tmp_path / "there"
    made(here)
    there.mkdir()
    for folder in ("s", "i", "c"):
        (here / folder).rename(there / folder)
    point_to(here, there.as_uri())
    repository = Repository.open(here, store_root=LocalStorage(there))
    if change == "clean up":
        frazil.upgrade_older(repository)
    before = files_of(there)
    with pytest.raises(ReadOnlyError) as caught:
        CHANGES[change](repository)
    assert str(there) in str(caught.value)
    with pytest.raises(ReadOnlyError, match="read-only"):
        context_of(repository).storage.put("chunks/" + "0" * 20, b"x")
    with pytest.raises(ReadOnlyError, match="read-only"):
        context_of(repository).storage.delete_many(["chunks/" + "0" * 20])
    assert files_of(there) == before


def test_a_place_that_is_named_gets_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web_server: WebServer
) -> None:
    made(tmp_path / "here")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "SECRET")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", web_server.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    point_to(tmp_path / "here", "s3://bucket/pre")
    repository = Repository.open(tmp_path / "here", store_root="s3://bucket/pre")
    with pytest.raises(FrazilError):
        contents(repository.readonly_session("main"))
    assert web_server.seen
    for _, _, headers in web_server.seen:
        assert "authorization" not in headers
        assert "SECRET" not in str(headers)


@pytest.mark.parametrize(
    "root", ["s3://bucket/x?endpoint_url=http://127.0.0.1:9", "https://user:secret@host/x"]
)
def test_a_place_is_named_without_options_and_users(root: str, tmp_path: Path) -> None:
    made(tmp_path / "here")
    point_to(tmp_path / "here", root)
    with pytest.raises(InvalidInputError, match="without credentials and options") as caught:
        Repository.open(tmp_path / "here", store_root=root)
    assert "secret" not in str(caught.value)


def test_another_place_than_the_state_file_names_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "here")
    point_to(tmp_path / "here", (tmp_path / "there").as_uri())
    with pytest.raises(InvalidInputError, match="another place"):
        Repository.open(tmp_path / "here", store_root=LocalStorage(tmp_path / "elsewhere"))


@pytest.mark.parametrize("spec", ["g2", "g3", 1, 2])
def test_other_generations_have_no_such_place(spec: Spec) -> None:
    storage = MemoryStorage()
    Repository.create(storage, spec_version=spec)
    with pytest.raises(InvalidInputError, match="generation g1"):
        Repository.open(storage, store_root=MemoryStorage())


@pytest.mark.parametrize("root", ["", ".", "data", "./data/", "data/more", "url", "url/data"])
def test_folders_below_its_own_need_no_word(root: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    before = told(made(here))
    named = root.replace("url", here.as_uri())
    folder = here / root.removeprefix("url").lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("s", "i", "c"):
        (here / kind).rename(folder / kind)
    point_to(here, named)
    assert told(Repository.open(here)) == before


def test_no_signed_request_goes_where_a_state_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web_server: WebServer
) -> None:
    made(tmp_path / "here")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "SECRET")
    options = "allow_http=true&region=us-east-1&force_path_style=true"
    roots = (f"s3://bucket/pre?endpoint_url={web_server.url}&{options}", f"{web_server.url}/x")
    for root in roots:
        point_to(tmp_path / "here", root)
        with pytest.raises(InvalidInputError, match="store_root") as caught:
            Repository.open(tmp_path / "here")
        assert "allow_http" not in str(caught.value)
    assert not web_server.seen
