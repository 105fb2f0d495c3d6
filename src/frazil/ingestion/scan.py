"""One file to a `FileScan`: whatever its format, with errors that name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from frazil.errors import ErrorKind, FrazilError, InvalidInputError
from frazil.ingestion.allowed import Allowed
from frazil.ingestion.formats import Format, detect_format, parse_format
from frazil.ingestion.isolation import Limits, isolated
from frazil.ingestion.loading import VariableChoice
from frazil.ingestion.parsed import settled
from frazil.ingestion.provenance import name_mark, state_mark
from frazil.ingestion.records import Failure, FileScan, Identity, Outcome, Skipped, Task, Variable
from frazil.ingestion.sources import look, shown

MESSAGE: Final = 300
"""Libraries may tell a long story; so much of it is passed on."""


def scan(options: Mapping[str, Any], limits: Limits, task: Task) -> Outcome:
    """Scan a file, or tell what is wrong with it; `options` are those of the store it is in.

    Whatever a parser does, raises or fails to survive is the answer for this file only.
    """
    try:
        return isolated(limits, _scanned, options, task)
    except FrazilError as error:
        return Failure(task.url, f"{error} (file={shown(task.url)})", str(error.kind))
    except Exception as error:
        return _surprise(task, error)


def _scanned(options: Mapping[str, Any], task: Task) -> Outcome:
    try:
        found = scan_file(task, options)
    except FrazilError as error:
        return Failure(task.url, str(error), str(error.kind))
    except MemoryError:
        raise InvalidInputError(
            "it took more memory to read than scan_memory_bytes allows",
            kind=ErrorKind.UNSUITABLE_DATA,
        ) from None
    except Exception as error:
        return _surprise(task, error)
    return found.compact() if isinstance(found, FileScan) else found


def _surprise(task: Task, error: Exception) -> Failure:
    """The answer for a file with which a parser did not cope."""
    told = " ".join(str(error).split())[:MESSAGE] or "no reason given"
    return Failure(
        task.url,
        f"the file cannot be read: {type(error).__name__}: {told} (file={shown(task.url)})",
        ErrorKind.UNSUITABLE_DATA,
    )


def scan_file(task: Task, options: Mapping[str, Any]) -> FileScan | Skipped:
    """Scan a file.

    Raises:
        InvalidInputError: it is not what it should be.
        StorageError: it cannot be read.
    """
    identity = look(task.url, options)
    if task.known is not None and identity is not None:
        _require_unchanged(task.url, identity, task.known)
        return Skipped(task.url)
    chosen = parse_format(task.format) if task.format else None
    found = chosen or detect_format(task.url, identity, options)
    choice = VariableChoice(frozenset(task.load), frozenset(task.drop))
    if found is Format.HDF5:
        from frazil.ingestion.hdf import scan_hdf

        allowed = Allowed(task.allowed)
        variables, attributes, notes = scan_hdf(task.url, options, task.group, choice, allowed)
    else:
        from frazil.ingestion.parsers import scan_parsed

        variables, attributes, notes = scan_parsed(task, found, choice, options)
    _require_content(task, variables)
    variables = settled(variables)
    if identity is None:
        from frazil.ingestion.parsers import folder_identity

        identity = folder_identity(variables)
    return FileScan(
        task.url,
        found,
        identity,
        tuple(variables),
        attributes,
        notes,
        task.group,
        task.allowed,
        tuple(sorted(choice.found)),
    )


def unless_known(outcome: Outcome, known: Mapping[bytes, bytes]) -> Outcome:
    """What was scanned, unless the repository has it by now."""
    if not isinstance(outcome, FileScan):
        return outcome
    mark = known.get(name_mark(outcome.url))
    if mark is None:
        return outcome
    try:
        _require_unchanged(outcome.url, outcome.identity, mark)
    except InvalidInputError as error:
        return Failure(outcome.url, str(error), str(error.kind))
    return Skipped(outcome.url)


def _require_unchanged(url: str, identity: Identity, mark: bytes) -> None:
    if mark != state_mark(identity):
        raise InvalidInputError(
            "the file was ingested before and has changed since",
            kind=ErrorKind.UNSUITABLE_DATA,
            file=shown(url),
        )


def _require_content(task: Task, variables: list[Variable]) -> None:
    if not variables:
        raise InvalidInputError(
            "there are no variables in it", kind=ErrorKind.UNSUITABLE_DATA, file=shown(task.url)
        )
