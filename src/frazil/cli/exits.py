"""Exit codes, and how failures are told: one calm sentence, what may help, no traceback."""

from __future__ import annotations

import json
import re
import sys
from enum import IntEnum
from typing import Final

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.masking import safe


class Exit(IntEnum):
    """What the exit code of a command means."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    REFUSED = 5
    FINDINGS = 6
    INTERRUPTED = 130


MEANING: Final = {
    Exit.OK: "done",
    Exit.FAILURE: "failure: the store cannot be reached, a file is damaged",
    Exit.USAGE: "usage: an argument is wrong",
    Exit.NOT_FOUND: "no such repository, ref, snapshot, node or file",
    Exit.CONFLICT: "somebody else was faster, it exists already, or versions conflict",
    Exit.REFUSED: "refused: read-only, not allowed, or not possible for this version",
    Exit.FINDINGS: "verify, fsck or doctor found problems",
    Exit.INTERRUPTED: "interrupted",
}

BY_KIND: Final = {
    ErrorKind.OBJECT_NOT_FOUND: Exit.NOT_FOUND,
    ErrorKind.PARENT_DIRECTORY_NOT_CLEAN: Exit.CONFLICT,
    ErrorKind.UNSUPPORTED_SPEC_VERSION: Exit.REFUSED,
    ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION: Exit.REFUSED,
    ErrorKind.NOT_REPRESENTABLE: Exit.REFUSED,
    ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER: Exit.REFUSED,
    ErrorKind.CONFIG_DESERIALIZATION: Exit.USAGE,
    ErrorKind.CANNOT_PARSE_URL: Exit.USAGE,
}
"""Kinds that tell more than the class of their error."""
BY_CLASS: Final[tuple[tuple[type[FrazilError], Exit], ...]] = (
    (NotFoundError, Exit.NOT_FOUND),
    (ConflictError, Exit.CONFLICT),
    (AlreadyExistsError, Exit.CONFLICT),
    (ReadOnlyError, Exit.REFUSED),
    (SessionStateError, Exit.REFUSED),
    (InvalidInputError, Exit.USAGE),
)


def exit_code(error: FrazilError) -> Exit:
    """The exit code that an error ends with."""
    if error.kind in BY_KIND:
        return BY_KIND[error.kind]
    return next((code for cls, code in BY_CLASS if isinstance(error, cls)), Exit.FAILURE)


IN_PYTHON: Final = re.compile(
    r"by authorize_virtual_chunk_access when the repository is opened"
    r"|by the option 'authorize-virtual-chunk-access'"
)
"""How the library and Spark say what is an option of the command."""


def tell(error: FrazilError, *, as_json: bool) -> Exit:
    """Say on stderr what went wrong, and return the exit code."""
    code = exit_code(error)
    message = IN_PYTHON.sub("with --authorize", str(error))
    if as_json:
        told = {"error": {"kind": str(error.kind), "message": message, "exit_code": int(code)}}
        print(json.dumps(told), file=sys.stderr)
        return code
    print(f"frazil: {safe(message)}", file=sys.stderr)
    if code == Exit.FAILURE:
        print("  (--debug shows where it happened)", file=sys.stderr)
    return code
