"""How our objects show themselves: `repr`, `str` and the notebook view.

Records that a user can build show an executable `repr`; everything else shows the same lines
as `str`. Which package the names begin with is decided by `naming`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

from frazil.drawing.markup import Html
from frazil.masking import safe, shown_text
from frazil.naming import dotted, package, shown_as

_INDENT: Final = "    "

_STYLE: Final = """<style>
.PACKAGE-repr { line-height: 1.6; max-width: 700px; }
.PACKAGE-repr .PACKAGE-header { font-weight: 500; border-bottom: 1px solid #8886; }
.PACKAGE-repr .PACKAGE-field-name { font-weight: 500; opacity: 0.6; }
.PACKAGE-repr summary { cursor: pointer; }
.PACKAGE-repr details > .PACKAGE-repr { margin-left: 12px; padding-left: 10px; }
</style>
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a view; `default` is what counts while `value` is None."""

    name: str
    value: object
    default: object = None


class Verbatim(str):
    """Text that is shown as it stands, without quotes."""

    __slots__ = ()


class HasRepr:
    """Gives a class its `repr`, `str` and `_repr_html_` from a title and fields."""

    _shown_name: ClassVar[str] = ""
    """dotted name below the official package"""
    _shown_package: ClassVar[str | None] = None
    """the package this class belongs to, where there is one class for each"""
    _executable: ClassVar[bool] = False
    """whether `repr` is an expression that rebuilds the object"""
    __slots__ = ()

    def _shown_title(self) -> str:
        """The first line."""
        return dotted(self._shown_name)

    def _shown_fields(self) -> Iterable[Field]:
        """The lines that follow."""
        return ()

    def _shown_below(self) -> Iterable[Html]:
        """What a notebook shows below them: pictures and tables."""
        return ()

    def __repr__(self) -> str:
        with shown_as(self._shown_package):
            return expression(self) if self._executable else str(self)

    def __str__(self) -> str:
        with shown_as(self._shown_package):
            return repr_text(self._shown_title(), self._shown_fields())

    def _repr_html_(self) -> str:
        with shown_as(self._shown_package):
            view = markup(self._shown_title(), self._shown_fields())
            return _STYLE.replace("PACKAGE", package()) + view + "".join(self._shown_below())


def expression(shown: HasRepr) -> str:
    """Spell an object as the call that would rebuild it, one argument to a line."""
    lines = [f"{_INDENT}{f.name}={_nest(source(f.value))},\n" for f in shown._shown_fields()]
    body = "\n" + "".join(lines) if lines else ""
    return f"{shown._shown_title()}({body})"


def source(value: object) -> str:
    """Spell a value as Python source, strings in double quotes."""
    if isinstance(value, Enum):
        return dotted(f"{type(value).__name__}.{value.name}")
    if isinstance(value, str):
        return quoted(shown_text(value))
    if isinstance(value, Mapping):
        if any(isinstance(item, HasRepr) for item in value.values()):
            lines = "".join(
                f"{_INDENT}{source(key)}: {_nest(source(item))},\n" for key, item in value.items()
            )
            return f"{{\n{lines}}}"
        return "{" + ", ".join(f"{source(k)}: {source(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(source, value)) + "]"
    if isinstance(value, tuple):
        inner = ", ".join(map(source, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def quoted(value: str) -> str:
    """A string literal in double quotes."""
    bare = repr(value + "'")  # the extra quote makes repr choose double quotes if it can
    if bare[0] == '"':
        return bare[:-2] + '"'
    return '"' + bare[1:-3].replace("\\'", "'").replace('"', '\\"') + '"'


def repr_text(title: str, fields: Iterable[Field]) -> str:
    """A title in angle brackets, then `name: value` lines; objects are nested below."""
    return "\n".join([f"<{title}>", *(_line(f) for f in fields)])


def _line(field: Field) -> str:
    value = field.default if field.value is None else field.value
    name = safe(field.name)
    if isinstance(value, HasRepr):
        return f"{name}:\n{_INDENT}{_nest(str(value))}"
    if isinstance(value, Mapping) and any(isinstance(item, HasRepr) for item in value.values()):
        inner = "\n".join(_line(Field(str(key), item)) for key, item in value.items())
        return f"{name}:\n{_INDENT}{_nest(inner)}"
    return f"{name}: {field_text(field)}"


def field_text(field: Field) -> str:
    """The value of a field on one line, with a note when it is only the default."""
    if field.value is None and field.default is not None:
        return f"{_word(field.default)} (default)"
    return _word(field.value)


def _word(value: object) -> str:
    if isinstance(value, Verbatim):
        return safe(str.__str__(value))
    if isinstance(value, Enum):
        return value.name
    return source(value)


def markup(title: str, fields: Iterable[Field]) -> str:
    """The notebook view: fields in rows, objects folded into details."""
    rows = "".join(_row(f) for f in fields)
    header = f'  <div class="{package()}-header">{html.escape(title)}</div>\n'
    return f'<div class="{package()}-repr">\n{header}{rows}</div>\n'


def _row(field: Field) -> str:
    value = field.default if field.value is None else field.value
    name = html.escape(safe(field.name))
    if isinstance(value, HasRepr):
        inner = markup(value._shown_title(), value._shown_fields())
        return _details(name, inner)
    if isinstance(value, Mapping) and any(isinstance(item, HasRepr) for item in value.values()):
        inner = "".join(_row(Field(str(key), item)) for key, item in value.items())
        return _details(name, f'<div class="{package()}-repr">\n{inner}</div>\n')
    return (
        f'  <div class="{package()}-field"><span class="{package()}-field-name">{name}:</span> '
        f'<span class="{package()}-field-value">{html.escape(field_text(field))}</span></div>\n'
    )


def _details(name: str, inner: str) -> str:
    summary = f'<summary class="{package()}-field-name">{name}</summary>'
    return f"  <details>\n    {summary}\n    {inner}  </details>\n"


def _nest(lines: str) -> str:
    """Indent all lines but the first."""
    return lines.replace("\n", "\n" + _INDENT)
