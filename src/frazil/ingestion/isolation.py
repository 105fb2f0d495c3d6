"""Parsers of foreign files run in a child process, so that a crash or a hang is an answer too.

Libraries in C and Rust that meet a damaged file can abort the process, loop for ever or take all
memory. Each thread that scans therefore uses a helper, which lives as long as it behaves: it is
ended by its own alarm when a call takes too long, or it crashes. Either way the next call gets a
new one, and the caller gets an error that says what happened.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, Final, ParamSpec, TypeVar

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingestion.tuning import IDLE_HELPERS, START_S

P = ParamSpec("P")
R = TypeVar("R")

_NUMBER: Final = struct.Struct("<Q")
_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    " from frazil.ingestion.isolation import serve_parser; serve_parser(sys.argv[1:])"
)
_UNWANTED: Final = (
    # by these HDF5 would look for files that other files name in further places
    "HDF5_VDS_PREFIX", "HDF5_EXTFILE_PREFIX", "HDF5_EXT_PREFIX",
    # where in a library a panic was takes long to find out, and nobody reads it
    "RUST_BACKTRACE",
)  # fmt: skip
"""Variables that the helper does without."""


PATIENCE: Final = 10
"""So many times as long a call may wait for others, such as a busy machine or a distant store."""


@dataclass(frozen=True, slots=True)
class ParserLimits:
    """What one call may take; 0 for any amount."""

    seconds: float = 0
    """of work; see `PATIENCE` for those on the clock"""
    memory: int = 0
    """bytes beyond what the helper has when the call begins"""


class ParserEndedError(InvalidInputError):
    """The helper did not survive a call."""


def isolated(limits: ParserLimits, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a function, run by a helper that does nothing else meanwhile.

    Raises:
        ParserEndedError: it took too long or too much memory, or crashed.
    """
    helper = _taken()
    try:
        return helper.call(limits, work, args, kwargs)
    finally:
        _put_back(helper)


def start_ahead(*modules: str) -> None:
    """Start a helper and let it import modules, while this process still does other things."""
    helper = _taken()
    helper.start(*modules)
    _put_back(helper)


class _Helper:
    """The child process, started when it is needed."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None

    def call(
        self,
        limits: ParserLimits,
        work: Callable[..., R],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> R:
        process = self.start()
        try:
            _send(process.stdin, (limits, work, args, kwargs))
            is_good, stays, found = _receive(process.stdout)
        except (EOFError, BrokenPipeError):
            raise self._ended(process, limits) from None
        except BaseException:  # an interrupt: the next call would get this one's answer
            self._close(process)
            raise
        if not stays:
            self._close(process)
        if is_good:
            result: R = found
            return result
        raise found

    def start(self, *modules: str) -> subprocess.Popen[bytes]:
        """The child, which imports modules first if it is a new one."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={k: v for k, v in os.environ.items() if k not in _UNWANTED},
            )
            assert self._process.stdin is not None
            pickle.dump(sys.path, self._process.stdin)
            self._process.stdin.flush()
        return self._process

    def _ended(self, process: subprocess.Popen[bytes], limits: ParserLimits) -> ParserEndedError:
        self._close(process)
        code = process.returncode
        if code in (-signal.SIGALRM, -signal.SIGPROF):
            detail = (
                f"it took longer than {limits.seconds:g} s to read, as a damaged file may;"
                " set scan_seconds for more"
            )
        else:
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            detail = f"the library that reads it crashed ({name})"
        return ParserEndedError(detail, kind=ErrorKind.UNSUITABLE_DATA)

    def stop(self) -> None:
        """End the child, as when this process ends."""
        if self._process is not None and self.owner == os.getpid():
            self._close(self._process)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        # A process that ends by itself says why; one that stays is not waited for.
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]  # both are pipes
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_returned: Final = threading.Condition()
_idle: list[_Helper] = []
_at_work: list[_Helper] = []


def _taken() -> _Helper:
    """The helper that was used last, or a new one."""
    with _returned:
        # A fork has the pipes of its parent, whose answers are not for it.
        for helpers in (_idle, _at_work):
            helpers[:] = [helper for helper in helpers if helper.owner == os.getpid()]
        if not _idle and _at_work:
            _returned.wait_for(lambda: _idle, START_S)
        helper = _idle.pop() if _idle else _new_helper()
        _at_work.append(helper)
        return helper


def _new_helper() -> _Helper:
    helper = _Helper()
    atexit.register(helper.stop)
    return helper


def _put_back(helper: _Helper) -> None:
    with _returned:
        _at_work.remove(helper)
        _returned.notify()
        if len(_idle) < IDLE_HELPERS:
            _idle.append(helper)
            return
    atexit.unregister(helper.stop)
    helper.stop()


def _send(pipe: IO[bytes] | None, value: object) -> None:
    assert pipe is not None
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    parts = [memoryview(data), *(each.raw() for each in buffers)]  # arrays go without a copy
    pipe.write(_NUMBER.pack(len(parts)))
    for part in parts:
        pipe.write(_NUMBER.pack(part.nbytes))
        pipe.write(part)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> Any:  # noqa: ANN401  (what was sent)
    assert pipe is not None
    data, *buffers = [_exactly(pipe, _number(pipe)) for _ in range(_number(pipe))]
    return pickle.loads(data, buffers=buffers)


def _number(pipe: IO[bytes]) -> int:
    found: int = _NUMBER.unpack(_exactly(pipe, _NUMBER.size))[0]
    return found


def _exactly(pipe: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = pipe.readinto(view[at:])  # type: ignore[attr-defined]  # a buffered reader
        if not count:
            raise EOFError
        at += count
    return data


# --- the child ---


def serve_parser(modules: Sequence[str]) -> None:
    """Import modules, then do what comes by standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print; what is printed is no answer
    for module in modules:
        with contextlib.suppress(ImportError):  # a parser that needs it will raise this again
            import_module(module)
    while True:
        try:
            limits, work, args, kwargs = _receive(sys.stdin.buffer)
        except EOFError:
            return
        _bound(limits.memory)
        _alarm(limits.seconds)
        try:
            answer: tuple[bool, bool, Any] = (True, True, work(*args, **kwargs))
        except Exception as error:
            answer = (False, not isinstance(error, MemoryError), _picklable(error))
        except BaseException as error:  # a panic of Rust, after which nothing is sure
            answer = (False, False, _picklable(error))
        _alarm(0)
        is_good, stays, found = answer
        # What earlier calls left behind may be so much that a new process should do the next ones.
        stays = stays and not (limits.memory and _data_bytes() > limits.memory // 2)
        _send(answers, (is_good, stays, found))
        if not stays:
            os._exit(0)


def _alarm(seconds: float) -> None:
    """Let the system end this process after so many seconds, whatever it does then."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)


def _picklable(error: BaseException) -> Exception:
    """An error that the other side can unpickle."""
    with contextlib.suppress(Exception):
        pickle.loads(pickle.dumps(error))
        if isinstance(error, Exception):
            return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _bound(memory: int) -> None:
    """Let the process have so many bytes of data more than it has now."""
    import resource

    present = _data_bytes()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = present + memory if memory and present else resource.RLIM_INFINITY
    if hard not in (resource.RLIM_INFINITY, -1):
        wanted = min(wanted, hard) if wanted != resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _data_bytes() -> int:
    """Private memory that this process has been given; 0 where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123  (no file)
            for line in status:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0
