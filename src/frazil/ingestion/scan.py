"""One file to a `FileScan`: whatever its format, with errors that name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from frazil.errors import ErrorKind, FrazilError, InvalidInputError, unsuitable
from frazil.formats.zarr_meta import MAX_CHUNKS
from frazil.ids import require_usable_name
from frazil.ingestion.isolation import ParserLimits, isolated
from frazil.ingestion.names import VariableChoice
from frazil.ingestion.parsers import Format, detect_format, parse_format
from frazil.ingestion.records import (
    PHONY,
    FileScan,
    FileVariable,
    Identity,
    InputFile,
    Outcome,
    ScanFailure,
    ScanTask,
    SkippedFile,
    name_mark,
    state_mark,
)
from frazil.ingestion.sources import bad_file, display_url, local_path, look
from frazil.ingestion.targets import ask_all

MESSAGE: Final = 300
"""Libraries may tell a long story; so much of it is passed on."""
MAX_NUMBER: Final = (1 << 63) - 1
"""Chunks of a file have numbers of 64 bits."""


def scan(options: Mapping[str, Any], limits: ParserLimits, task: ScanTask) -> Outcome:
    """Scan a file, or tell what is wrong with it; `options` are those of the store it is in.

    Whatever a parser does, raises or fails to survive is the answer for this file only.
    """
    try:
        return isolated(limits, _scanned, options, task)
    except FrazilError as error:
        return _refusal(task, error)
    except Exception as error:
        return _surprise(task, error)


def _scanned(options: Mapping[str, Any], task: ScanTask) -> Outcome:
    try:
        found = scan_file(task, options)
        if isinstance(found, FileScan):
            found.require_text()
    except FrazilError as error:
        return _refusal(task, error)
    except MemoryError:
        raise unsuitable("it took more memory to read than scan_memory_bytes allows") from None
    except Exception as error:
        return _surprise(task, error)
    return found.compact() if isinstance(found, FileScan) else found


def _refusal(task: ScanTask, error: FrazilError) -> ScanFailure:
    """The answer for a file that is refused; what is wrong may be in one that it leads to."""
    said, place = str(error), display_url(task.url)
    if place not in said:
        led = "it leads to another file: " if "file" in error.facts else ""
        said = f"{led}{said} (file={place})"
    return ScanFailure(task.url, said, str(error.kind))


def _surprise(task: ScanTask, error: Exception) -> ScanFailure:
    """The answer for a file with which a parser did not cope."""
    detail = " ".join(str(error).split())[:MESSAGE] or "no reason given"
    return ScanFailure(
        task.url,
        f"the file cannot be read: {type(error).__name__}: {detail} (file={display_url(task.url)})",
        ErrorKind.UNSUITABLE_DATA,
    )


def scan_file(task: ScanTask, options: Mapping[str, Any]) -> FileScan | SkippedFile:
    """Scan a file."""
    identity = look(task.url, options)
    if task.known is not None and identity is not None:
        _require_unchanged(task.url, identity, task.known)
        return SkippedFile(task.url)
    chosen = parse_format(task.format) if task.format else None
    found = chosen or detect_format(task.url, identity, options)
    choice = VariableChoice(frozenset(task.load), frozenset(task.drop))
    given = tuple(sorted(options.items()))
    source = InputFile(task.url, given, task.group, task.allowed, identity)
    if found is Format.HDF5:
        from frazil.ingestion.hdf import scan_hdf

        parsed = scan_hdf(source, choice)
    else:
        from frazil.ingestion.parsers import scan_parsed

        parsed = scan_parsed(source, found, choice)
    if not parsed.variables:
        raise bad_file("there are no variables in it", task.url)
    names = [variable.name for variable in parsed.variables]
    for variable in parsed.variables:
        if names.count(variable.name) > 1:
            raise bad_file(f"two variables are called {variable.name!r}", task.url)
        _require_names(variable, task.url)
        _require_countable(variable, task.url)
    variables, notes = _marked(_settled(parsed.variables), task, identity, options)
    if identity is None:
        from frazil.ingestion.parsers import folder_identity

        identity = folder_identity(variables)
        if task.known is not None:
            _require_unchanged(task.url, identity, task.known)
            return SkippedFile(task.url)
    made = FileScan(
        task.url,
        found,
        identity,
        tuple(variables),
        parsed.attributes,
        parsed.notes + notes,
        task.group,
        task.allowed,
        tuple(sorted(choice.found)),
    )
    _ = made.sizes  # refuses dimensions of two lengths
    return made


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
        return ScanFailure(outcome.url, str(error), str(error.kind))
    return SkippedFile(outcome.url)


def _require_names(variable: FileVariable, url: str) -> None:
    name = variable.name
    if len(variable.dims) != len(variable.shape):
        raise bad_file(
            f"the variable {name!r} has {len(variable.shape)} dimensions and"
            f" {len(variable.dims)} names of dimensions",
            url,
        )
    try:
        require_usable_name(f"/{name}")
    except InvalidInputError as error:
        raise bad_file(
            f"a variable is called {name!r}, which an array cannot be ({error.args[0]}); leave it"
            " out with drop",
            url,
        ) from None


def _require_countable(variable: FileVariable, url: str) -> None:
    """Refuse more chunks than can be stored or numbered."""
    if max(variable.grid, default=0) > MAX_CHUNKS or prod(variable.grid) > MAX_NUMBER:
        grid = " x ".join(map(str, variable.grid))
        raise bad_file(
            f"the variable {variable.name!r} has more chunks ({grid}) than can be stored; leave it"
            " out with drop",
            url,
        )


def _require_unchanged(url: str, identity: Identity, mark: bytes) -> None:
    if mark != state_mark(identity):
        raise bad_file("the file was ingested before and has changed since", url)


def _marked(
    variables: Sequence[FileVariable],
    task: ScanTask,
    identity: Identity | None,
    options: Mapping[str, Any],
) -> tuple[list[FileVariable], tuple[str, ...]]:
    """Variables whose references lie within their files, with marks of the other files.

    Also notes on files of which nothing could be learned.
    """
    known = {task.url: identity}
    named = {
        location: None
        for variable in variables
        for location in _unmarked(variable)
        if location not in known
    }
    known |= {location: look(location) for location in named if local_path(location) is not None}
    distant = [location for location in named if local_path(location) is None]
    known |= ask_all(distant, options)
    unknown = [location for location in distant if location not in known]
    notes = _unwatched(unknown)
    return [_within_files(variable, task.url, known) for variable in variables], notes


def _unmarked(variable: FileVariable) -> tuple[str, ...]:
    """Files that references point to without telling their versions."""
    refs = variable.references
    return () if refs is None or refs.marks else refs.locations


def _unwatched(unknown: Sequence[str]) -> tuple[str, ...]:
    if not unknown:
        return ()
    files = display_url(unknown[0])
    if len(unknown) > 1:
        files = f"{files} and {len(unknown) - 1:,} more"
    note = "files that references name were not asked for their versions, so that it will not be"
    return (f"{note} noticed if they are replaced: {files}",)


def _within_files(
    variable: FileVariable, url: str, known: Mapping[str, Identity | None]
) -> FileVariable:
    refs = variable.references
    if refs is None or not _unmarked(variable):
        return variable
    is_there = refs.location >= 0
    ends = np.zeros(len(refs.locations), np.uint64)
    np.maximum.at(ends, refs.location[is_there], (refs.offset + refs.length)[is_there])
    for location, end in zip(refs.locations, ends.tolist(), strict=True):
        found = known.get(location)
        if found is None and location in known and location != url:
            detail = f"a file that references name is missing: {display_url(location)}"
            raise bad_file(detail, url)
        if found is not None and end > found.size:
            raise bad_file(
                f"a chunk of {variable.name!r} ends at byte {end:,} of {display_url(location)},"
                f" which has {found.size:,} bytes",
                url,
            )
    if refs.locations == (url,):
        return variable
    states = (None if each == url else known.get(each) for each in refs.locations)
    marks = tuple(None if state is None else state.checksum for state in states)
    return replace(variable, references=replace(refs, marks=marks))


def _settled(variables: Sequence[FileVariable]) -> list[FileVariable]:
    """Variables whose unnamed dimensions are named by their lengths."""
    lengths: list[int] = []
    made = []
    for variable in variables:
        taken: list[int] = []
        dims = []
        for dim, length in zip(variable.dims, variable.shape, strict=True):
            if not dim.startswith(PHONY):
                dims.append(dim)
                continue
            fitting = (n for n, each in enumerate(lengths) if each == length and n not in taken)
            number = next(fitting, len(lengths))
            if number == len(lengths):
                lengths.append(length)
            taken.append(number)
            dims.append(f"{PHONY}{number}")
        made.append(replace(variable, dims=tuple(dims)))
    return made
