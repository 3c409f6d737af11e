"""What counts as an effect, read out of a module's syntax tree.

Effects are the clock, randomness, threads, processes, sockets and files. Only `moldau.runtime` may
reach for them: everything else is handed what it needs, so that the same code runs in simulation.

Invariants:
* What counts is what runs: an import for annotations only (`if TYPE_CHECKING:`) is no effect.
* A name is followed to what it was imported as (`import time as t`, `from os import environ`).
* Where an effect sits is part of what is found (`path::function`), so that an allowed one stays in
  the function it was allowed for.

It reads imports and calls, not data flow: `getattr(builtins, "open")` would get by. A reviewer
finds that; these tests find what is written without thinking.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.architecture.allowed import Found
from tests.architecture.facts import each_file, finding
from tests.architecture.sources import Source

RUNTIME = "moldau.runtime"

EFFECT_MODULES = frozenset(
    {
        "_thread",
        "concurrent.futures",
        "ctypes",
        "fcntl",
        "glob",
        "http.client",
        "http.server",
        "mmap",
        "multiprocessing",
        "queue",
        "random",
        "resource",
        "sched",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib.request",
        "uuid",
        "uvloop",
    }
)
BUILTINS = frozenset({"__import__", "breakpoint", "input", "open"})

# Of these modules only what is named here has no effect.
HARMLESS_PARTS = {
    "os": frozenset({"PathLike", "fsdecode", "fsencode", "fspath", "linesep", "name", "sep"}),
    "os.path": frozenset({"basename", "commonpath", "dirname", "join", "normpath", "splitext"}),
    "pathlib": frozenset({"PurePath", "PurePosixPath", "PureWindowsPath"}),
    "io": frozenset({"BytesIO", "StringIO", "TextIOBase", "RawIOBase", "BufferedIOBase"}),
}
# Of these only what is named here has one.
CLOCK_CALLS = {
    "datetime.datetime": frozenset({"now", "today", "utcnow"}),
    "datetime.date": frozenset({"today"}),
}
_NAMES = (*EFFECT_MODULES, *BUILTINS, *HARMLESS_PARTS, *CLOCK_CALLS)
_IMPORTS_ASYNCIO = re.compile(r"^\s*(?:import|from)\b.*\b(?:asyncio|anyio)\b", re.MULTILINE)
_READ = frozenset({ast.Import, ast.ImportFrom, ast.Attribute, ast.Call})
_DEFINITIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef})
_LEAVES = frozenset({"ctx", "op"})
_SUSPICIOUS = re.compile(rf"\b(?:{'|'.join(sorted({name.split('.')[0] for name in _NAMES}))})\b")
"""A text without any of these words has no effect."""


@finding
def effects(source: Source) -> Found:
    """Every effect outside the runtime: `path::function: what` -> why it is one."""
    if source.module is None or source.is_in(RUNTIME) or not _SUSPICIOUS.search(source.text):
        return {}
    return {
        f"{source.path}::{where}: {what}": "an effect outside moldau.runtime"
        for where, what in _Reader(source.tree).found()
    }


def asyncio_uses(among: Iterable[Source], shells: Iterable[str]) -> Found:
    """Modules that import asyncio without being a shell; a shell is a package or a last name."""
    shells = tuple(shells)
    among = tuple(among)
    found = {}
    for source, is_user in zip(among, _uses_asyncio(among), strict=True):
        module = source.module or ""
        is_shell = any(
            source.is_in(shell) if "." in shell else module.rsplit(".", 1)[-1] == shell
            for shell in shells
        )
        if is_user and not is_shell:
            found[source.path] = "a core imports asyncio"
    return found


@each_file
def _uses_asyncio(source: Source) -> bool:
    if source.module is None or not _IMPORTS_ASYNCIO.search(source.text):
        return False
    imported = {name for name, _ in _Reader(source.tree).imports()}
    return any(name.split(".")[0] in {"asyncio", "anyio"} for name in imported)


class _Reader:
    """Walks one module: keeps which function it is in and what each name was imported as."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes: list[tuple[str, ast.AST]] = []
        _add_placed(tree, "<module>", self._nodes)
        self._names: dict[str, str] = {}
        for _, node in self._nodes:
            if isinstance(node, ast.Import):
                for each in node.names:
                    top = each.name.split(".")[0]
                    self._names[each.asname or top] = each.name if each.asname else top
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for each in node.names:
                    self._names[each.asname or each.name] = f"{node.module}.{each.name}"

    def imports(self) -> Iterator[tuple[str, str]]:
        """(dotted name of what is imported, function that it is imported in)."""
        for where, node in self._nodes:
            if isinstance(node, ast.Import):
                yield from ((each.name, where) for each in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from ((f"{node.module}.{each.name}", where) for each in node.names)

    def found(self) -> Iterator[tuple[str, str]]:
        for name, where in self.imports():
            what = _effect_of_import(name)
            if what is not None:
                yield where, what
        for where, node in self._nodes:
            if isinstance(node, ast.Attribute):
                what = _effect_of_attribute(self._dotted(node))
                if what is not None:
                    yield where, what
            elif isinstance(node, ast.Call) and self._is_builtin_effect(node.func):
                yield where, f"{ast.unparse(node.func)}()"

    def _is_builtin_effect(self, called: ast.expr) -> bool:
        return (
            isinstance(called, ast.Name) and called.id in BUILTINS and called.id not in self._names
        )

    def _dotted(self, node: ast.expr) -> str | None:
        """`t.sleep` -> `time.sleep` where t was imported as time; None for anything else."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._dotted(node.value)
            return f"{owner}.{node.attr}" if owner else None
        return None


def _add_placed(node: ast.AST, where: str, found: list[tuple[str, ast.AST]]) -> None:
    """Imports, calls and attributes that run, each with the name of the function or class around
    it. This is the walk over every node of the product, so it is written to be fast."""
    kind = node.__class__
    if kind in _READ:
        found.append((where, node))
    elif kind in _DEFINITIONS:
        name = getattr(node, "name", "")
        where = name if where == "<module>" else f"{where}.{name}"
    elif kind is ast.If and ast.unparse(node.test).endswith("TYPE_CHECKING"):  # type: ignore[attr-defined]
        for statement in node.orelse:  # type: ignore[attr-defined]
            _add_placed(statement, where, found)
        return
    for name in node._fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            for each in value:
                if isinstance(each, ast.AST):
                    _add_placed(each, where, found)
        elif isinstance(value, ast.AST) and name not in _LEAVES:
            _add_placed(value, where, found)


def _effect_of_import(name: str) -> str | None:
    for module in EFFECT_MODULES:
        if name == module or name.startswith(f"{module}."):
            return module
    owner, _, part = name.rpartition(".")
    if owner in HARMLESS_PARTS and name not in HARMLESS_PARTS:
        return None if part in HARMLESS_PARTS[owner] else name
    return None


def _effect_of_attribute(dotted: str | None) -> str | None:
    owner, _, part = (dotted or "").rpartition(".")
    if owner in CLOCK_CALLS and part in CLOCK_CALLS[owner]:
        return dotted
    if owner in HARMLESS_PARTS and dotted not in HARMLESS_PARTS:
        return None if part in HARMLESS_PARTS[owner] else dotted
    return None
