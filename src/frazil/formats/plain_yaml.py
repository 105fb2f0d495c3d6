"""A safe subset of YAML: maps, lists, scalars and tags for enumerations.

The official package writes YAML 1.2, where `yes` and `1:30` are text, while PyYAML reads 1.1;
so scalars are resolved here. Anchors are refused, which keeps reading linear in the size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

import yaml

from frazil.errors import ErrorKind, FormatError
from frazil.formats.config_keys import Variant
from frazil.model.history import JSON

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES: Final = 256 << 10 if _Loader is not yaml.SafeLoader else 32 << 10
"""More than a thousand containers, in no more than a second or two; Python's own parser takes
some fifty times as long as the one of libyaml."""
MAX_DEPTH: Final = 100
"""Nesting that no configuration needs; deeper ones are refused before Python's stack ends."""

_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE: Final = frozenset(("true", "True", "TRUE"))
_FALSE: Final = frozenset(("false", "False", "FALSE"))
_BREAK: Final = re.compile("[\r\n\x85\u2028\u2029]")
_DECIMAL: Final = re.compile(r"[-+]?[0-9]{1,40}")
_BASED: Final = re.compile(r"0x[0-9a-fA-F]{1,32}|0o[0-7]{1,32}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class _Dumper(yaml.SafeDumper):
    """Writes tagged scalars without quotes where that is safe; YAML 1.2 readers insist."""

    def choose_scalar_style(self) -> str:
        style = super().choose_scalar_style()
        event, analysis = self.event, self.analysis
        if not isinstance(event, yaml.ScalarEvent) or event.style or analysis is None:
            return style
        tagged = event.tag is not None and event.tag.startswith("!")
        return "" if style == "'" and tagged and analysis.allow_block_plain else style


def dump_yaml(value: object) -> bytes:
    """Spell maps, lists, scalars and `Variant`s as YAML."""
    text = yaml.serialize(_node(value), Dumper=_Dumper, width=math.inf, allow_unicode=True)
    return str(text).encode()


def _node(value: object, tag: str | None = None) -> yaml.Node:
    if isinstance(value, Variant):
        return _node(value.payload, f"!{value.name}")
    if isinstance(value, Mapping):
        pairs = [(_node(str(key)), _node(item)) for key, item in value.items()]
        return yaml.MappingNode(tag or "tag:yaml.org,2002:map", pairs, flow_style=not pairs)
    if isinstance(value, list | tuple):
        items = [_node(item) for item in value]
        return yaml.SequenceNode(tag or "tag:yaml.org,2002:seq", items, flow_style=not items)
    if isinstance(value, str):
        style = None if isinstance(_resolve(value), str) else "'"
        if _BREAK.search(value):  # other styles fold it, also in keys
            style = '"'
        return yaml.ScalarNode(tag or "tag:yaml.org,2002:str", value, style=style)
    if value is None:
        return yaml.ScalarNode("tag:yaml.org,2002:null", "null")
    if isinstance(value, bool):
        return yaml.ScalarNode("tag:yaml.org,2002:bool", "true" if value else "false")
    return yaml.ScalarNode(tag or "tag:yaml.org,2002:int", str(value))


def load_yaml(data: bytes, *, key: str) -> JSON:
    """Read YAML into plain values; `!tag value` becomes a map of one key.

    Raises:
        FormatError: not YAML, too large or too deep, anchors, or a key that is repeated.
    """
    if len(data) > MAX_BYTES:
        raise _damage(f"larger than {MAX_BYTES} bytes", key)
    try:
        return _Reader(yaml.parse(data.decode(), Loader=_Loader), key).document()
    except yaml.YAMLError as error:
        raise _damage(f"not YAML: {' '.join(str(error).split())}", key) from error
    except (UnicodeDecodeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise _damage(f"not readable: {type(error).__name__}", key) from error


class _Reader:
    """Makes values of a parser's events, one by one.

    Depth is counted as they come: libyaml's own way to make a tree of them ends the process when
    it is nested more deeply than the stack is long.
    """

    def __init__(self, events: Iterator[yaml.Event], key: str) -> None:
        self._events = events
        self._key = key

    def document(self) -> JSON:
        """The value of the only document; None when there is none."""
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        made = self._value(next(self._events), 0)
        next(self._events)  # the end of the document
        if not isinstance(next(self._events), yaml.StreamEndEvent):
            raise _damage("not YAML: more than one document", self._key)
        return made

    def _value(self, event: yaml.Event, depth: int) -> JSON:
        if depth > MAX_DEPTH:
            raise _damage("nested too deeply", self._key)
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            raise _damage("anchors are not supported", self._key)
        made = self._untagged(event, depth)
        tag = event.tag or ""
        return {tag[1:]: made} if tag.startswith("!") and len(tag) > 1 else made

    def _untagged(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, depth: int) -> JSON:
        if isinstance(event, yaml.ScalarEvent):
            return event.value if event.style else _resolve(event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(each, depth + 1) for each in self._until(yaml.SequenceEndEvent)]
        made: dict[str, JSON] = {}
        for key in self._until(yaml.MappingEndEvent):
            name = key.value if isinstance(key, yaml.ScalarEvent) else None
            if name is None or name in made:
                raise _damage(f"unusable or repeated key {name!r:.80}", self._key)
            made[name] = self._value(next(self._events), depth + 1)
        return made

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        """What comes before the end of a collection."""
        return iter(lambda: self._next_unless(end), None)

    def _next_unless(self, end: type[yaml.Event]) -> yaml.Event | None:
        event = next(self._events)
        return None if isinstance(event, end) else event


def _resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar by the core schema of YAML 1.2."""
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _damage(problem: str, key: str) -> FormatError:
    return FormatError(problem, kind=ErrorKind.CONFIG_DESERIALIZATION, key=key)
