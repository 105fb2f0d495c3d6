"""Processes for races and crashes: forked, so that they start in a millisecond."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable


class Forked:
    """A child process that does one piece of work and ends; 0 is a good end."""

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        with warnings.catch_warnings():
            # Newer Pythons warn of other threads (a timer of the test runner), whose locks the
            # work of our children does not need.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                work(*arguments)
                code = 0
            except BaseException:  # whatever it is, the child must not go on as a test run
                traceback.print_exc()
            finally:
                os._exit(code)
        self._code: int | None = None

    def is_running(self) -> bool:
        """Tell whether the child has not ended yet."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is None

    def wait(self) -> int:
        """Wait for the end; return the exit code, negative for a signal."""
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> int:
        """Kill it, if it still runs, and wait."""
        if self.is_running():
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def run_all(work: Callable[..., object], arguments: list[tuple[object, ...]]) -> None:
    """Run one process for each set of arguments; all must end well."""
    running = [Forked(work, *each) for each in arguments]
    assert [child.wait() for child in running] == [0] * len(running)
