"""Logging: Python loggers below `frazil`, and a switch that prints them to the console.

A program that configures logging itself needs nothing from here. `set_logs_filter` prints our
records to the console, chosen by text such as `debug` or `frazil.storage=debug,warn`; without
an argument the environment variables FRAZIL_LOG and ICECHUNK_LOG are asked.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Final, TextIO

from frazil.masking import safe
from frazil.spelling import near

ROOT: Final = "frazil"
TRACE: Final = 5
_OFF: Final = logging.CRITICAL + 10
_LEVELS: Final = {
    "off": _OFF,
    "false": _OFF,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}
_NAMES: Final = ("frazil", "icechunk")
_SIMILAR: Final = 0.8

logging.addLevelName(TRACE, "TRACE")
logging.getLogger(ROOT).addHandler(logging.NullHandler())


_warned: set[tuple[object, ...]] = set()


def warn_once(logger: logging.Logger, about: tuple[object, ...], text: str, *args: object) -> None:
    """Log a warning, but only once per process for each value of `about`."""
    if about not in _warned:
        _warned.add(about)
        logger.warning(text, *args)


class _Lines(logging.Formatter):
    """Records as lines, with foreign text made safe."""

    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


class _Console(logging.StreamHandler[TextIO]):
    """Writes to what is standard error (or output) at the moment of writing."""

    def __init__(self, to_stdout: bool) -> None:
        logging.Handler.__init__(self)
        self._to_stdout = to_stdout
        self.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    @property
    def stream(self) -> TextIO:
        return sys.stdout if self._to_stdout else sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore: the stream is looked up each time."""


class _Switch:
    """The console handler that is in place, and the loggers whose level we set."""

    handler: _Console | None = None
    touched: tuple[str, ...] = ()
    to_stdout: bool = False


def initialize_logs() -> None:
    """Set up console logging from the environment; called when the facade is imported."""
    _Switch.to_stdout = os.environ.get("ICECHUNK_LOG_TO_STDOUT", "") not in ("", "0", "false")
    set_logs_filter(None)


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Choose what is printed to the console; None asks the environment.

    Args:
        log_filter_directive: levels, alone or for a module, separated by commas.
    """
    text = log_filter_directive
    if text is None:
        text = os.environ.get("FRAZIL_LOG", os.environ.get("ICECHUNK_LOG", ""))
    levels = _parse(text)
    _clear()
    if not levels:
        return
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _Switch.handler = _Console(_Switch.to_stdout)
    _Switch.touched = tuple(levels)
    logging.getLogger(ROOT).addHandler(_Switch.handler)


def shutdown_telemetry() -> None:
    """Flush what is still to be printed."""
    if _Switch.handler is not None:
        _Switch.handler.flush()


def _clear() -> None:
    for name in _Switch.touched:
        logging.getLogger(name).setLevel(logging.NOTSET)
    if _Switch.handler is not None:
        logging.getLogger(ROOT).removeHandler(_Switch.handler)
    _Switch.handler, _Switch.touched = None, ()


def _parse(text: str) -> dict[str, int]:
    """Levels by logger name; directives for other programs' modules are left out."""
    levels: dict[str, int] = {}
    for directive in filter(None, (part.strip() for part in text.split(","))):
        if directive.lower() in _LEVELS:
            levels.setdefault(ROOT, _LEVELS[directive.lower()])
            continue
        module = directive.replace("::", ".")
        target, _, word = module.replace("=", ":").partition(":")
        package, _, rest = target.partition(".")
        level = _LEVELS.get(word.lower(), TRACE)
        if package in _NAMES:
            levels[f"{ROOT}.{rest}" if rest else ROOT] = level
        elif near(package, _NAMES, _SIMILAR):
            print(f"WARNING: log filter {package!r} looks misspelled", file=sys.stderr)
    return levels
