"""What the files of this house import and read, as far as the choice of deep tests asks.

A test depends on more than it imports: on each `conftest.py` above it, and on files that it reads.
A file that is not Python counts as read by the modules under `tests/` whose text has its name, or
that lie above its folder and have the name of that folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import cache
from pathlib import PurePosixPath
from typing import Final

import grimp

from tests.architecture.sources import python
from tests.rooms import DISTRIBUTIONS, mirrored

PACKAGES: Final = ("moldau", "tests", "bench", "examples", "release")
STARTED_BY_ALL: Final = "broker/moldau/broker/main/"
"""Hardly a deep test starts no broker."""


class Imports:
    """By path in the repository."""

    def __init__(self, imported: Mapping[str, Set[str]], read: Mapping[str, Set[str]]) -> None:
        """`imported` has all Python files; `read` other files that those of the tests read."""
        self._imported = imported
        self._helpers: dict[str, frozenset[str]] = {}
        self._read = read
        self._folders = {
            parent.as_posix() for path in imported for parent in PurePosixPath(path).parents
        }
        self._brokers = self._closure(each for each in imported if each.startswith(STARTED_BY_ALL))

    def helpers(self, path: str) -> frozenset[str]:
        """Return what lies under `tests/` or is read there, and the test at `path` depends on."""
        if path not in self._helpers:
            self._helpers[path] = self._find_helpers(path)
        return self._helpers[path]

    def _find_helpers(self, path: str) -> frozenset[str]:
        found: set[str] = set()
        left = [path, *self._conftests(path)]
        while left:
            each = left.pop()
            new = {
                other for other in self._imported.get(each, ()) if other.startswith("tests/")
            } | set(self._conftests(each))
            found |= self._read.get(each, set())
            left += new - found
            found |= new
        return frozenset(found - {path})

    def product(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the modules outside of `tests/` that these import. A package stands for what it
        gives names to."""
        found: set[str] = set()
        for path in paths:
            for each in self._imported.get(path, ()):
                if not each.startswith("tests/"):
                    found.add(each)
                    if each.endswith("/__init__.py"):
                        found |= self._imported.get(each, set())
        return frozenset(found)

    def room(self, path: str) -> str | None:
        """Return the room of the test at `path`; None if it has none."""
        return mirrored(path, self._folders.__contains__)

    def started(self, path: str) -> frozenset[str]:
        """Return the modules that processes of this test can load: what it imports and its room,
        and a broker. A test of no room may start anything."""
        room = self.room(path)
        if room is None:
            return frozenset(each for each in self._imported if not each.startswith("tests/"))
        in_room = {each for each in self._imported if each.startswith(f"{room}/")}
        own = self.product({path, *self.helpers(path)})
        return self._closure(own | in_room) | self._brokers

    def _conftests(self, path: str) -> list[str]:
        above = (f"{each.as_posix()}/conftest.py" for each in PurePosixPath(path).parents)
        return [each for each in above if each in self._imported and each != path]

    def _closure(self, paths: Iterable[str]) -> frozenset[str]:
        found = set(paths)
        left = list(found)
        while left:
            new = set(self._imported.get(left.pop(), ())) - found
            left += new
            found |= new
        return frozenset(found)


def imports_of_this_house(change: Iterable[str]) -> Imports:
    """Return what this tree imports, and what of the change its tests read."""
    others = [PurePosixPath(each) for each in change if not each.endswith(".py")]
    texts = {each.path: each.text for each in python() if each.is_test}
    read: dict[str, set[str]] = {}
    for path, text in texts.items():
        for other in others:
            if reads(path, text, other):
                read.setdefault(path, set()).add(other.as_posix())
    return Imports(_imported(), read)


def reads(path: str, text: str, other: PurePosixPath) -> bool:
    """Whether the module at `path` with this text may read the other file."""
    above = other.parent.parent.as_posix()
    is_above = above != "." and PurePosixPath(path).parent.as_posix() == above
    return other.name in text or (is_above and f'"{other.parent.name}' in text)


@cache
def _imported() -> dict[str, frozenset[str]]:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    paths = {_module(each.path): each.path for each in python()}
    return {
        path: frozenset(paths[other] for other in graph.find_modules_directly_imported_by(module))
        if module in graph.modules
        else frozenset()
        for module, path in paths.items()
    }


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[0] in DISTRIBUTIONS and len(parts) > 2:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
