"""The rules of the repo object, of its backups, and of ref files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.commit.base import OVERWRITTEN
from frazil.formats.ref_files import Fence, encode_fence
from frazil.formats.repo_info import REPO_KEY, encode_repo_info
from frazil.fsck.findings import Code, Finding
from frazil.fsck.repo_rules import (
    check_backups,
    check_config,
    check_config_file,
    check_leftovers,
    read_ref_files,
    read_repo,
)
from frazil.model.history import RepoInfo
from frazil.storage.memory import MemoryStorage
from tests.unit.fsck.defects import MAIN_FILE
from tests.unit.fsck.repairs import v1, v2
from tests.unit.fsck.samples import Sick


def codes(findings: list[Finding]) -> list[Code]:
    return [each.code for each in findings]


# --- the repo object ---


@v2
def test_a_repo_object_in_order_is_read_without_findings(sick: Sick) -> None:
    info, findings = read_repo(sick.get(REPO_KEY))
    assert findings == []
    assert info is not None
    assert info.branches == sick.info().branches


@v2
def test_a_damaged_copy_is_told_by_its_own_key(sick: Sick) -> None:
    blob = sick.get(REPO_KEY)
    info, [finding] = read_repo(blob[:50], "overwritten/repo.1")
    assert info is None
    assert (finding.code, finding.target) == (Code.FILE_BODY, "overwritten/repo.1")
    assert codes(read_repo(b"")[1]) == [Code.FILE_SHORT]


@v2
def test_all_that_is_wrong_is_told_at_once(sick: Sick) -> None:
    newest, second, *older = sick.info().latest_updates
    lines = (replace(newest, updated_at=second.updated_at, backup_path="repo.1"), second, *older)
    sick.write_info(
        branches={"dev": sick.tip},
        deleted_tags=frozenset({"v1"}),
        enabled_feature_flags=frozenset({77}),
        config={"inline_chunk_threshold_bytes": "many"},
        latest_updates=lines,
    )
    info, findings = read_repo(sick.get(REPO_KEY))
    assert info is not None
    assert codes(findings) == [
        Code.MAIN_MISSING,
        Code.TAG_DELETED,
        Code.FLAG_UNKNOWN,
        Code.CONFIG_DAMAGED,
        Code.UPDATE_BACKUP,
        Code.UPDATE_TIME,
    ]


@v2
def test_reserved_flags_are_known(sick: Sick) -> None:
    sick.write_info(disabled_feature_flags=frozenset({1, 2}))
    assert read_repo(sick.get(REPO_KEY))[1] == []


def test_no_configuration_is_a_good_one() -> None:
    assert [*check_config(None, REPO_KEY)] == []
    assert [*check_config({}, REPO_KEY)] == []
    assert codes([*check_config({"caching": 3}, REPO_KEY)]) == [Code.CONFIG_DAMAGED]


# --- backups ---


def repo_at(sick: Sick, place: int, before: str | None) -> RepoInfo:
    """A repo object with one line of the log, which goes on in a backup."""
    line = sick.info().latest_updates[place]
    return replace(sick.info(), latest_updates=(line,), repo_before_updates=before)


def back_up(sick: Sick, name: str, info: RepoInfo) -> None:
    sick.storage.put(OVERWRITTEN + name, encode_repo_info(info))


@v2
def test_a_log_may_go_on_through_older_and_older_backups(sick: Sick) -> None:
    back_up(sick, "one", repo_at(sick, 1, "two"))
    back_up(sick, "two", repo_at(sick, 2, None))
    newest = repo_at(sick, 0, "one")
    assert [*check_backups(sick.storage, newest)] == []
    sick.storage.delete_many([f"{OVERWRITTEN}two"])
    gone = Finding(Code.BACKUP_MISSING, f"{OVERWRITTEN}two")
    assert [*check_backups(sick.storage, newest)] == [gone]


@v2
def test_a_backup_is_older_than_what_refers_to_it(sick: Sick) -> None:
    back_up(sick, "one", repo_at(sick, 0, None))
    [finding] = check_backups(sick.storage, repo_at(sick, 0, "one"))
    assert (finding.code, finding.target) == (Code.BACKUP_CHAIN, f"{OVERWRITTEN}one")
    assert "not older" in finding.detail


@v2
def test_backups_that_refer_to_each_other_are_a_circle(sick: Sick) -> None:
    back_up(sick, "one", repo_at(sick, 1, "two"))
    back_up(sick, "two", repo_at(sick, 2, "one"))
    [finding] = check_backups(sick.storage, repo_at(sick, 0, "one"))
    assert (finding.code, finding.target) == (Code.BACKUP_CHAIN, f"{OVERWRITTEN}one")
    assert "circle" in finding.detail


@v2
def test_a_backup_without_a_log_ends_the_chain(sick: Sick) -> None:
    back_up(sick, "one", replace(sick.info(), latest_updates=()))
    [finding] = check_backups(sick.storage, repo_at(sick, 0, "one"))
    assert (finding.code, finding.target) == (Code.BACKUP_CHAIN, f"{OVERWRITTEN}one")


def test_refs_beside_a_repo_object_are_told_once() -> None:
    storage = MemoryStorage()
    assert [*check_leftovers(storage)] == []
    for name in ("a", "b"):
        storage.put(f"refs/branch.{name}/ref.json", b"{}")
    assert codes([*check_leftovers(storage)]) == [Code.LEFTOVER_REFS]


# --- ref files ---


@v1
def test_refs_are_read_and_deleted_tags_are_not(sick: Sick) -> None:
    refs = read_ref_files(sick.storage)
    assert (sorted(refs.branches), sorted(refs.tags)) == (["dev", "main"], ["v1"])
    assert refs.branches["main"] == sick.tip
    assert (refs.findings, refs.damaged, refs.unusable) == ([], {}, {})


@v1
def test_a_damaged_branch_is_told_and_kept_as_it_was_read(sick: Sick) -> None:
    sick.storage.put(MAIN_FILE, b"garbage")
    refs = read_ref_files(sick.storage)
    assert codes(refs.findings) == [Code.REF_DAMAGED]  # and not that there is no main
    assert refs.damaged == {"main": MAIN_FILE}
    assert refs.unusable[MAIN_FILE].data == b"garbage"
    assert sorted(refs.branches) == ["dev"]


@v1
@pytest.mark.parametrize("why", Fence)
def test_what_is_left_of_a_deleted_branch_is_no_damage(sick: Sick, why: Fence) -> None:
    key = "refs/branch.dev/ref.json"
    sick.storage.put(key, encode_fence(why, sick.tip))
    refs = read_ref_files(sick.storage)
    assert (refs.findings, refs.damaged, sorted(refs.branches)) == ([], {}, ["main"])
    assert [*refs.unusable] == [key]


@v1
@pytest.mark.parametrize(
    ("key", "data", "code"),
    [
        ("refs/note.x/ref.json", b"{}", Code.REF_UNKNOWN),
        ("refs/branch.main/notes.txt", b"hello", Code.STRAY_NAME),
        ("refs/branch.main/ref.json.deleted", b"", Code.TOMBSTONE),
        ("refs/tag.v2/ref.json.deleted", b"", Code.TOMBSTONE),
        ("refs/tag.gone/ref.json.deleted", b"x", Code.TOMBSTONE),
        ("refs/tag.v1/ref.json", b'{"snapshot":"short"}', Code.REF_DAMAGED),
    ],
)
def test_odd_files_are_told_and_branches_still_read(
    sick: Sick, key: str, data: bytes, code: Code
) -> None:
    sick.storage.put(key, data)
    refs = read_ref_files(sick.storage)
    [finding] = refs.findings
    assert (finding.code, finding.target) == (code, key)
    assert sorted(refs.branches) == ["dev", "main"]


def test_a_repository_without_refs_has_no_main() -> None:
    refs = read_ref_files(MemoryStorage())
    assert refs.findings == [Finding(Code.MAIN_MISSING, MAIN_FILE)]


@v1
def test_a_configuration_that_is_no_yaml_is_told_with_its_file(sick: Sick) -> None:
    assert check_config_file(sick.storage) == []
    sick.storage.put("config.yaml", b"caching: [1, 2")
    [finding] = check_config_file(sick.storage)
    assert (finding.code, finding.target) == (Code.CONFIG_DAMAGED, "config.yaml")
    sick.storage.delete_many(["config.yaml"])
    assert check_config_file(sick.storage) == []
