"""Write the source of one generated function and compile it.

Objects that the source uses are bound to names and become default arguments, so that the loop finds
them among its locals. Each line has its operator on record, so that a traceback leads to the
operator. The text is in `linecache`, so that tracebacks and debuggers show it.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from types import CodeType, FunctionType, TracebackType
from typing import Any

from moldau.deferred import dataclass
from moldau.streams.serdes.awaitables import checked_at_first

# Python allows 20 nested blocks; a run that comes near is continued in another function.
DEPTH_MAX = 14

# Operator names by generated file and line.
_OPERATORS: dict[str, list[str]] = {}
_CODES: dict[str, tuple[str, CodeType]] = {}


@dataclass(frozen=True, slots=True)
class Fields:
    """What is known of a value that is not null: sources of its fields. With `make` the value
    exists only as its fields, until a step needs it: `make` is the source that makes it. If that
    adds fields to a dict, the scope's value is the dict without them."""

    names: Mapping[str, str] = field(default_factory=dict)
    make: str | None = None
    is_dict: bool = False
    """Whether the scope's value is a dict, although its type is not declared."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of a record's parts. For a table, `value` is the new value, `old` the former.

    `fields` is None if the value may be null.
    """

    key: str
    value: str
    time: str
    headers: str
    old: str = "None"
    fields: Fields | None = None

    def changed(self, **names: str) -> Scope:
        known = None if "value" in names else self.fields
        return replace(self, fields=known, **names)

    def known(self, fields: Fields) -> Scope:
        """Return the scope of a value that is not null, of which this is known."""
        return replace(self, fields=fields)

    def arguments(self, *, is_table: bool) -> str:
        assert self.fields is None or self.fields.make is None, "the value is not made yet"
        parts = [self.key, self.value, self.time, self.headers]
        if is_table:
            parts.insert(2, self.old)
        return ", ".join(parts)


STREAM = Scope("key", "value", "time", "headers")
TABLE = Scope("key", "value", "time", "headers", "old")


class Writer:
    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.depth = 0
        self.operator = ""
        self._lines: list[tuple[int, str, str]] = []
        self._bound: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._users: set[str] = set()
        self._variables = 0
        self._indent = 1

    def bind(self, value: Any, hint: str) -> str:
        """Return the name under which the source finds `value`."""
        name = self._names.get(id(value))
        if name is None:
            name = f"{hint}_{len(self._bound)}"
            self._bound[name] = value
            self._names[id(value)] = name
        return name

    def bind_users(self, function: Callable[..., Any], hint: str) -> str:
        """Bind a user's function: a result that would have to be awaited is an error."""
        name = self.bind(function, hint)
        self._users.add(name)
        return name

    def variable(self, hint: str) -> str:
        self._variables += 1
        return f"{hint}{self._variables}"

    def line(self, text: str) -> None:
        self._lines.append((self._indent, text, self.operator))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head:`; what is written inside is its body. An empty body becomes `pass`."""
        self.line(f"{head}:")
        at = len(self._lines)
        self._indent += 1
        self.depth += 1
        yield
        if len(self._lines) == at:
            self.line("pass")
        self._indent -= 1
        self.depth -= 1

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return not self._lines

    def uses(self, name: str) -> bool:
        word = re.compile(rf"\b{name}\b")
        return any(word.search(text) for _, text, _ in self._lines)

    def insert(self, text: str, indent: int) -> None:
        """Put a line before all lines written so far."""
        self._lines.insert(0, (indent, text, self.operator))

    def indented(self) -> None:
        self._indent += 1

    def compiled(self, name: str, parameters: str) -> Callable[..., Any]:
        """Return the function `name(parameters)` with everything written as its body."""
        bound = ", ".join(f"{each}={each}" for each in self._bound)
        head = f"def {name}({parameters}, *, {bound}):" if bound else f"def {name}({parameters}):"
        lines = [head]
        operators = [""]
        previous = ""
        for indent, text, operator in self._lines or [(1, "pass", "")]:
            mark = f"  # {operator}" if operator != previous else ""
            previous = operator
            lines.append("    " * indent + text + mark)
            operators.append(operator)
        text = "\n".join(lines) + "\n"
        names = dict(self._bound)
        exec(_code(self.filename, text, operators), names)  # noqa: S102
        made: FunctionType = names[name]
        defaults = made.__kwdefaults__ or {}
        for each in self._users:
            defaults[each] = checked_at_first(defaults[each], defaults, each)
        return made


def _code(filename: str, text: str, operators: list[str]) -> CodeType:
    """Return the compiled text. Tasks of a program share it, because their texts are the same."""
    count, chosen = 1, filename
    while (known := _CODES.get(chosen)) is not None:
        if known[0] == text:
            return known[1]
        count += 1
        chosen = f"{filename}#{count}"
    code = compile(text, chosen, "exec")
    _CODES[chosen] = (text, code)
    _OPERATORS[chosen] = operators
    linecache.cache[chosen] = (len(text), None, text.splitlines(True), chosen)
    return code


def operator_of(traceback: TracebackType | None) -> str | None:
    """Return the operator of the innermost generated line in a traceback."""
    found = None
    while traceback is not None:
        operators = _OPERATORS.get(traceback.tb_frame.f_code.co_filename)
        if operators is not None:
            found = operators[traceback.tb_lineno - 1] or found
        traceback = traceback.tb_next
    return found
