"""docs/streams-reference.md, made of docstrings; `python -m tests.streams.reference` writes it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import moldau.streams
from moldau.streams import (
    AppState,
    Asker,
    AsyncQuery,
    Codec,
    Column,
    Context,
    Grouped,
    Query,
    Record,
    Row,
    StateStore,
    Stream,
    Streams,
    Table,
    Windowed,
)
from moldau.streams.app import LakeOptions, SourceOptions
from moldau.streams.dsl.grouped import Cogrouped
from moldau.streams.dsl.options import JoinOptions, RowOptions, StateStoreOptions, TableOptions
from moldau.streams.dsl.table import GroupedTable
from moldau.streams.testing.driver import Driver

PAGE: Final = Path(__file__).parents[2] / "docs" / "streams-reference.md"

_HEAD = """\
# Streams: reference

Every class and function of `moldau.streams`, as the program documents itself.
[streams.md](streams.md) is the guide. `Any` and types are left out of the signatures; a function of
yours takes the value, or key and value if it requires two arguments. Durations are `"5s"`, a
`timedelta`, or a number of milliseconds; times are milliseconds since 1970.

This page is made of the docstrings; `python -m tests.streams.reference` makes it anew.
"""

_CLASSES: Final = (
    Streams, Stream, Grouped, Cogrouped, Table, GroupedTable, StateStore, Context, Driver, Query,
    AsyncQuery, Asker, Record, Row, Windowed, Codec, Column,
)  # fmt: skip
_OPTIONS: Final = {
    "SourceOptions": SourceOptions,
    "LakeOptions": LakeOptions,
    "TableOptions": TableOptions,
    "JoinOptions": JoinOptions,
    "RowOptions": RowOptions,
    "StateStoreOptions": StateStoreOptions,
}
_UNPACKED = re.compile(r"Unpack\[(\w+)\]")


def render() -> str:
    """The whole page."""
    parts = [_HEAD, *(_of_class(each) for each in _CLASSES)]
    parts.append("\n## Functions\n")
    parts += [_entry(each.__name__, each, "") for each in _functions()]
    parts.append(f"\n## AppState\n\n{_text(AppState)}")
    parts.append("\n## Options\n\nOptions that several operators share, by keyword.\n")
    parts += [f"\n### {name}\n\n{_text(kind)}" for name, kind in _OPTIONS.items()]
    parts.append("\n## Errors\n")
    parts += [f"\n### `{each.__name__}`\n\n{_text(each)}" for each in _errors()]
    return "".join(parts)


def _functions() -> Iterator[Callable[..., Any]]:
    for name in moldau.streams.__all__:
        found = getattr(moldau.streams, name)
        if inspect.isfunction(found):
            yield found


def _errors() -> Iterator[type]:
    for name in moldau.streams.__all__:
        found = getattr(moldau.streams, name)
        if inspect.isclass(found) and issubclass(found, Exception):
            yield found


def _of_class(cls: type) -> str:
    parts = [f"\n## {cls.__name__}\n\n{_text(cls)}"]
    if "__init__" in vars(cls) and cls in (Streams, Driver, Asker):
        parts.append(f"\n```\n{_signature(cls.__name__, vars(cls)['__init__'])}\n```\n")
    for name, member in vars(cls).items():
        if name.startswith("_") or (name in ("index", "count") and issubclass(cls, tuple)):
            continue
        if isinstance(member, property):
            parts.append(f"\n### `{name}`\n\n{_text(member)}")
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            function: Any = getattr(member, "__func__", member)
            parts.append(_entry(name, function, f"{cls.__name__}."))
    return "".join(parts)


def _entry(name: str, function: Callable[..., Any], owner: str) -> str:
    prefix = owner if owner == "StateStore." else ""
    return f"\n### `{_signature(prefix + name, function)}`\n\n{_text(function)}"


def _signature(name: str, function: Callable[..., Any]) -> str:
    words = []
    is_keyword = False
    for each in inspect.signature(function).parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            words.append("*")
            is_keyword = True
        if each.kind is each.VAR_KEYWORD:
            unpacked = _UNPACKED.search(str(each.annotation))
            words.append(f"**{unpacked[1] if unpacked else each.name}")
        elif each.kind is each.VAR_POSITIONAL:
            words.append(f"*{each.name}")
            is_keyword = True
        else:
            words.append(each.name + _default(each.default))
    call = "await " if inspect.iscoroutinefunction(function) else ""
    return f"{call}{name}({', '.join(words)})"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, type) or (not isinstance(value, str) and len(repr(value)) > 18):
        return "=..."
    return f"={value!r}".replace("'", '"')


def _text(thing: Any) -> str:
    doc = inspect.getdoc(thing)
    assert doc, f"{thing} has no docstring"
    lines = [textwrap.fill(part, 100, break_long_words=False) for part in doc.split("\n\n")]
    return "\n\n".join(lines).replace("<", "&lt;") + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
