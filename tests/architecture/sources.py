"""The files of this repository, as the rules read them.

Invariant: what git would keep is what is looked at, whether it is added already or not; without
git (a source archive) the folders are walked and what builds leave behind is skipped.
"""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = ("platform", "broker", "streams", "connect", "connectors")

_LEFT_BY_BUILDS = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}
_HIDDEN_BUT_OURS = {".ci", ".github", ".gitignore", ".dockerignore"}


@dataclass(frozen=True)
class Source:
    """A file by its path in the repository; a planted one has only ever been in memory."""

    path: str
    text: str
    is_kept: bool = False
    """Whether this is a Python file of the repository, for which tests.architecture.facts keeps
    what the rules find."""

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed while nothing is collected: a finalizer that runs Python code in the midst of a
        parse ends it with a SystemError in CPython 3.11 ("recursion depth mismatch")."""
        is_on = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(self.text, self.path)
        finally:
            if is_on:
                gc.enable()

    @cached_property
    def statements(self) -> tuple[tuple[str, ast.AST], ...]:
        """Each statement, `except` and `case` with the qualified name of what it stands in, ""
        for the module: a tenth of the nodes, and all that most rules want."""
        found: list[tuple[str, ast.AST]] = []
        _add_statements(self.tree, "", found)
        return tuple(found)

    def forget(self) -> None:
        """Lets the tree go; it is made again for the next rule that asks."""
        vars(self).pop("tree", None)
        vars(self).pop("statements", None)

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @cached_property
    def module(self) -> str | None:
        """The dotted name under `moldau`, for a file of one of the five distributions."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        if len(parts) < 3 or parts[0] not in DISTRIBUTIONS or parts[1] != "moldau":
            return None
        return ".".join(parts[1:-1] if parts[-1] == "__init__" else parts[1:])

    def is_in(self, package: str) -> bool:
        """Whether this file is `package` or lies below it; `package` is a dotted name."""
        return f"{self.module}.".startswith(f"{package}.")


@cache
def tracked(root: Path = ROOT) -> tuple[str, ...]:
    """The paths of all files that belong to the repository, sorted."""
    found = _asked_git(root) if (root / ".git").exists() else None
    return tuple(sorted(found if found is not None else _walked(root)))


@cache
def sources(*suffixes: str) -> tuple[Source, ...]:
    """The text files of the repository whose names end in one of `suffixes`."""
    return tuple(
        Source(path, (ROOT / path).read_text(encoding="utf-8"), is_kept=path.endswith(".py"))
        for path in tracked()
        if path.endswith(suffixes)
    )


@cache
def python() -> tuple[Source, ...]:
    return sources(".py")


@cache
def product() -> tuple[Source, ...]:
    """The modules that are installed: everything under the namespace `moldau`."""
    return tuple(source for source in python() if source.module is not None)


def functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions with their qualified names, nested ones included."""
    for where, each in source.statements:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within(where, each.name), each


def classes(source: Source) -> Iterator[tuple[str, ast.ClassDef]]:
    """All classes with their qualified names, nested ones included."""
    for where, each in source.statements:
        if isinstance(each, ast.ClassDef):
            yield within(where, each.name), each


def within(where: str, name: str) -> str:
    """The qualified name of what is defined there; `where` is "" in the module itself."""
    return f"{where}.{name}" if where else name


def _add_statements(node: ast.AST, where: str, found: list[tuple[str, ast.AST]]) -> None:
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, name, ()):
            found.append((where, child))
            is_definition = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            _add_statements(child, within(where, child.name) if is_definition else where, found)


def _asked_git(root: Path) -> list[str] | None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    names = answer.stdout.decode("utf-8").split("\0")
    return [name for name in names if name and (root / name).is_file()]


def _walked(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") and part not in _HIDDEN_BUT_OURS for part in parts)
        if hidden or _LEFT_BY_BUILDS & set(parts) or path.suffix in {".so", ".pyc"}:
            continue
        if path.is_file():
            yield path.relative_to(root).as_posix()
