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
from collections.abc import Iterable, Iterator

from tests.architecture.allowed import Found
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


def effects(among: Iterable[Source]) -> Found:
    """Every effect outside the runtime: `path::function: what` -> why it is one."""
    return {
        f"{source.path}::{where}: {what}": "an effect outside moldau.runtime"
        for source in among
        if not source.is_in(RUNTIME)
        for where, what in _Reader(source.tree).found()
    }


def asyncio_uses(among: Iterable[Source], shells: Iterable[str]) -> Found:
    """Modules that import asyncio without being a shell; a shell is a package or a last name."""
    shells = tuple(shells)
    found = {}
    for source in among:
        module = source.module or ""
        is_shell = any(
            source.is_in(shell) if "." in shell else module.rsplit(".", 1)[-1] == shell
            for shell in shells
        )
        imported = {name for name, _ in _Reader(source.tree).imports()}
        if not is_shell and any(name.split(".")[0] in {"asyncio", "anyio"} for name in imported):
            found[source.path] = "a core imports asyncio"
    return found


class _Reader:
    """Walks one module: keeps which function it is in and what each name was imported as."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(_placed(tree, "<module>"))
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


def _placed(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes that run, each with the qualified name of the function or class around it."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for statement in node.orelse:
            yield from _placed(statement, where)
        return
    yield where, node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        where = node.name if where == "<module>" else f"{where}.{node.name}"
    for child in ast.iter_child_nodes(node):
        yield from _placed(child, where)


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
