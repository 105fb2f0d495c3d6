"""Whatever a repository holds, commands show neither its secrets nor its control characters."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import typer
import zarr

import frazil
from frazil.cli.app import make_app
from frazil.model.config import (
    AnyObjectStoreConfig,
    ObjectStoreConfig,
    StorageRetriesSettings,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.storage.credentials import HttpAccess
from tests.cli.conftest import Frazil

EVIL = "\x1b]0;x\x07\x1b[2J\x1b[31mfake\r\x9b31m\x7f\u202egnp\u2066\u2028<script>"
RAW = frozenset("\x1b\x07\r\x9b\x7f\u202e\u2066\u2028")
SECRET = "HUSH7"
FIRST = "1CECHNKREP0F1RSTCMT0"
ONCE = StorageSettings(retries=StorageRetriesSettings(1, 1, 1))


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A repository in which every text is somebody's attempt."""
    url = str(tmp_path_factory.mktemp("nasty") / "repo")
    config = frazil.RepositoryConfig(storage=ONCE)
    stores: dict[str, AnyObjectStoreConfig] = {
        "http://127.0.0.1:9/d/": ObjectStoreConfig.Http({}, {"X-Auth": SECRET}),
        "https://127.0.0.1:9/d/": ObjectStoreConfig.Http({"api_key": SECRET, "note": EVIL}),
        "gs://bk/": ObjectStoreConfig.Gcs({"service_account_key": SECRET, "note": EVIL}),
    }
    for prefix, store in stores.items():
        config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    repo = frazil.Repository.create(url, config)
    session = repo.writable_session("main")
    group = zarr.group(session.store, attributes={f"t{EVIL}": EVIL})
    dims = (f"d{EVIL}",)
    group.create_array("n\x1b[31m\u202e", shape=(4,), dtype="f4", dimension_names=dims)[:] = 1
    texts = group.create_array("s", shape=(2,), dtype=str, dimension_names=dims)
    texts[:] = np.array([EVIL, "plain"], dtype=object)
    group.create_array("v", shape=(4,), chunks=(4,), dtype="u1", compressors=None)
    group.create_array("w", shape=(4,), chunks=(4,), dtype="u1", compressors=None)
    location = f"http://127.0.0.1:9/d/x?X-Amz-Signature={SECRET}"
    session.store.set_virtual_ref("v/c/0", location, offset=0, length=4)
    snapshot = session.commit(f"msg {EVIL}", {f"author{EVIL}": EVIL})
    repo.create_branch("other", snapshot)
    for branch, number in (("main", 1), ("other", 2)):
        session = repo.writable_session(branch)
        more = zarr.open_group(session.store, mode="r+")
        more.attrs[f"t{EVIL}"] = f"{EVIL}{number}"
        more.create_array(f"q{EVIL}".replace("/", ""), shape=(number,), dtype="f4")
        elsewhere = f"http://127.0.0.1:9/d/{number}?X-Amz-Signature={SECRET}"
        session.store.set_virtual_ref("v/c/0", elsewhere, offset=0, length=4)
        outside = f"s3://nobodys/{number}?X-Amz-Signature={SECRET}"
        session.store.set_virtual_ref(
            "w/c/0", outside, offset=0, length=4, validate_container=False
        )
        snapshot = session.commit(f"msg {EVIL}", {f"author{EVIL}": EVIL})
    repo.create_branch(f"b{EVIL}".replace("/", ""), snapshot)
    repo.create_tag(f"t{EVIL}".replace("/", ""), snapshot)
    return url


COMMANDS = (
    ("log",),
    ("analyze",),
    ("log", "--graph"),
    ("log", "--mermaid"),
    ("show",),
    ("ls",),
    ("tree",),
    ("stat", "/"),
    ("stat", "s"),
    ("stat", "n\x1b[31m\u202e"),
    ("stat", "v", "--chunk", "0"),
    ("cat", "s"),
    ("cat", "s", "--csv"),
    ("cat", "v", "--authorize", "http://127.0.0.1:9/d/"),
    ("du",),
    ("du", "--by", "array"),
    ("status",),
    ("reflog",),
    ("branch", "list"),
    ("tag", "list"),
    ("config", "show"),
    ("config", "get", "virtual_chunk_containers"),
    ("inspect",),
    ("inspect", "repo"),
    ("fsck",),
    ("verify",),
    ("verify", "--authorize", "http://127.0.0.1:9/d/"),
    ("config", "set", "virtual_chunk_containers.x.name=\x1b[2J"),
    ("diff",),
    ("diff", FIRST, "main"),
    ("diff", FIRST, "main", "--values"),
    ("diff", "other", "main", "--values", "--authorize", "http://127.0.0.1:9/d/"),
    ("merge", "other", "--dry-run"),
    ("merge", "other"),
    ("merge", f"none{EVIL}"),
    ("cherry-pick", "other", "--dry-run"),
    ("revert", "main", "--dry-run"),
    ("squash", FIRST),
    ("fast-forward", "other", "--dry-run"),
    ("reset", "other"),
    ("branch", "create", "x\x1b[2J"),
    ("branch", "delete", "none\x1b[2J"),
    ("tag", "create", "x\x1b[2J/\u202e"),
    ("tag", "delete", "none\x1b[2J"),
    ("init",),
    ("fsck", "--virtual", "--authorize", "http://127.0.0.1:9/d/"),
    ("fsck", "--deep"),
    ("verify", "--virtual", "--authorize", "http://127.0.0.1:9/d/"),
    ("verify", "--virtual"),
    ("repair",),
    ("gc",),
    ("expire", "--older-than", "0d"),
    ("purge", "v"),
    ("purge", "s"),
    ("purge", "n\x1b[31m\u202e"),
    ("trash", "list"),
    ("trash", "restore", "none\x1b[2J"),
    ("trash", "empty"),
    ("compact", "--dry-run"),
    ("rewrite-manifests", "--dry-run"),
    ("upgrade",),
    ("doctor",),
    ("du", "--by", "branch"),
    ("du", "--snapshots"),
    ("stat", "none\x1b[2J"),
    ("cat", "none\x1b[2J"),
)


GROUPS = ("branch", "tag", "config", "trash")
ELSEWHERE = {"ingest", "sql", "rechunk", "prepare-spark", "clone", "export", "import", "serve"}
"""They run on Spark, need a second place or go on until stopped.

Those that copy are tested below, `sql` in test_spark_jobs.py, `serve` in tests/web/test_attacks.py;
`rechunk` tells what those that copy tell, and `prepare-spark` sees no repository.
"""


def test_every_command_is_here() -> None:
    found = {
        f"{name} {inner}".strip()
        for name, command in typer.main.get_command(make_app()).commands.items()  # type: ignore[attr-defined]
        for inner in getattr(command, "commands", {"": None})
    }
    tried = {" ".join(each[: 2 if each[0] in GROUPS else 1]) for each in COMMANDS}
    assert found - tried == ELSEWHERE


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_show_neither(
    frazil_command: Frazil, nasty: str, command: tuple[str, ...]
) -> None:
    head = command[: 2 if command[0] in GROUPS else 1]
    for as_json in ((), ("--json",)):
        said = frazil_command(*head, nasty, *command[len(head) :], *as_json)
        assert not RAW & set(said.out + said.err)
        assert SECRET not in said.out + said.err
        if as_json and said.out:
            json.loads(said.out)


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_commands_that_copy_show_neither(
    frazil_command: Frazil, nasty: str, tmp_path: Path
) -> None:
    name = EVIL.replace("/", "")
    (tmp_path / name).mkdir()
    good, bad = (str(tmp_path / name / f"{each}{name}.h5") for each in "gb")
    Path(bad).write_text(EVIL)
    with h5py.File(good, "w") as file:
        file[f"x{name}"] = [1.0, 2.0]
        file[f"x{name}"].make_scale(f"x{name}")
        file[f"v{name}"] = [1.0, 2.0]
        file[f"v{name}"].dims[0].attach_scale(file[f"x{name}"])
        file[f"v{name}"].attrs[f"a{name}"] = np.complex64(1j)
        file[f"g{name}/w"] = 1
    for number, as_json in enumerate(((), ("--json",))):
        target = str(tmp_path / f"t{name}{number}")
        for command in (
            ("ingest", good, f"{target}1", "-m", EVIL),
            ("ingest", good, f"{target}2", "--mode", "native"),
            ("ingest", good, bad, f"{target}3", "--on-error", "skip"),
            ("ingest", good, f"{target}4", "--concat-dim", f"y{name}", "--drop", f"n{name}"),
            ("ingest", f"{bad}*none", f"{target}5"),
            ("ingest", bad, f"{target}6"),
            ("clone", f"{target}2", f"{target}7"),
            ("export", f"{target}2", f"{target}.zarr"),
            ("import", f"{target}.zarr", f"{target}8"),
            ("clone", nasty, f"{target}9"),
            ("export", nasty, f"{target}.zarr2"),
        ):
            said = frazil_command(*command, "--engine", "local", *as_json)
            assert not RAW & set(said.out + said.err), command
            assert SECRET not in said.out + said.err, command
            assert said.out + said.err, command


@pytest.mark.parametrize("spec", [1, 2])
def test_no_file_shows_them(frazil_command: Frazil, nasty: str, tmp_path: Path, spec: int) -> None:
    url = nasty
    if spec == 1:
        stored = frazil.Repository.open(nasty).config
        stored.storage = ONCE
        url = str(tmp_path / "first")
        frazil.Repository.create(url, stored, spec_version=1).save_config()
    files = sorted(str(path.relative_to(url)) for path in Path(url).rglob("*") if path.is_file())
    kinds = {"config.yaml", "refs"} if spec == 1 else {"repo", "manifests", "transactions"}
    assert kinds <= {name.partition("/")[0] for name in files}
    for name in files:
        for as_json in ((), ("--json",)):
            said = frazil_command("inspect", url, name, *as_json)
            assert not RAW & set(said.out + said.err), name
            assert SECRET not in said.out + said.err, name


def test_versions_that_do_not_exist(frazil_command: Frazil, nasty: str) -> None:
    said = frazil_command("log", f"{nasty}@none\x1b[2J")
    assert said.code == 3
    assert not RAW & set(said.err)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_json_loses_nothing(frazil_command: Frazil, nasty: str) -> None:
    (entry, *_) = frazil_command("log", nasty, "--json").data["snapshots"]
    assert entry["message"] == f"msg {EVIL}"
    assert entry["metadata"] == {f"author{EVIL}": EVIL}
    assert frazil_command("cat", nasty, "s", "--json").data["values"] == [EVIL, "plain"]


def test_reprs_show_neither(nasty: str) -> None:
    repo = frazil.Repository.open(nasty)
    session = repo.readonly_session("main")
    shown = [repo, session, session.store, repo.config, repo.storage, repo.status]
    shown += [*repo.ancestry(branch="main"), *repo.ops_log()]
    shown.append(repo.diff(from_snapshot_id=FIRST, to_branch="main"))
    for each in shown:
        text = repr(each) + str(each) + getattr(each, "_repr_html_", str)()
        assert not (RAW - set("\r")) & set(text), type(each)
        assert "\x1b" not in text
        assert SECRET not in text
        assert "<script>" not in getattr(each, "_repr_html_", str)()


def test_errors_of_virtual_chunks_show_no_signature(nasty: str) -> None:
    access = {"http://127.0.0.1:9/d/": HttpAccess}
    repo = frazil.Repository.open(nasty, authorize_virtual_chunk_access=access)
    with pytest.raises(frazil.FrazilError) as caught:
        zarr.open_array(repo.readonly_session("main").store, path="v", mode="r")[:]
    assert "http://127.0.0.1:9/d/1" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.facts}"


def test_addresses_on_the_command_line(frazil_command: Frazil, tmp_path: Path) -> None:
    for url in (
        f"http://user:{SECRET}@127.0.0.1:9/x?sig={SECRET}",
        f"s3://AK:{SECRET}@b/x",
        f"abfs://u:{SECRET}@account/x",
        f"ftp://u:{SECRET}@h/{tmp_path}",
    ):
        if url.startswith("http"):
            continue  # retried for long; the storage's own tests show it
        for as_json in ((), ("--json",)):
            said = frazil_command("log", url, *as_json)
            assert said.code != 0
            assert SECRET not in said.out + said.err
