"""What the rules find in one file, read once for its content and kept for the next run.

Invariants:
* A rule of one file depends on its path, its text and the code of the rules, and on nothing else.
* The first rule that asks for a file has all rules look at it, so that its syntax tree is made
  once and thrown away: the trees of all files together take more than a gigabyte.
* What is kept counts for the same text, the same rules and the same Python alone; a planted file
  is never kept. Without the kept file everything is found anew, so it may be lost at any time.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.architecture.allowed import Found
from tests.architecture.sources import ROOT, Source, tracked

KEPT: Final = ROOT / ".pytest_cache" / "architecture.json"
T = TypeVar("T")

_rules: dict[str, Callable[[Source], Any]] = {}


def each_file(rule: Callable[[Source], T]) -> Callable[[Iterable[Source]], list[T]]:
    """Makes a rule of one file a rule of many; what it finds must survive JSON."""
    name = f"{rule.__module__}.{rule.__qualname__}"
    _rules[name] = rule

    def found(among: Iterable[Source]) -> list[T]:
        return [_facts().of(source, name) if source.is_kept else rule(source) for source in among]

    return found


def finding(rule: Callable[[Source], Found]) -> Callable[[Iterable[Source]], Found]:
    """The same for a rule that finds violations: those of all files together."""
    every = each_file(rule)

    def found(among: Iterable[Source]) -> Found:
        return {where: what for each in every(among) for where, what in each.items()}

    return found


class Facts:
    """By path: a digest of the text, and what each rule found."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._edition = _edition()
        self._files = self._read()
        self._checked: set[str] = set()
        self._is_changed = False

    def of(self, source: Source, name: str) -> Any:
        """What that rule finds in that file."""
        found = self._current(source)
        if name not in found:
            self._look(source, found)
        return found[name]

    def save(self) -> None:
        """Writes what is new, in one step, with what other processes of this run have written."""
        if not self._is_changed:
            return
        files = {path: self._files[path] for path in tracked() if path in self._files}
        for path, other in self._read().items():
            if path in files and other["digest"] == files[path]["digest"]:
                files[path]["found"] = other["found"] | files[path]["found"]
        text = json.dumps({"edition": self._edition, "files": files}, separators=(",", ":"))
        self._path.parent.mkdir(exist_ok=True)
        beside = self._path.with_suffix(f".{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._path)
        self._is_changed = False

    def _current(self, source: Source) -> dict[str, Any]:
        if source.path not in self._checked:
            digest = hashlib.sha256(source.text.encode("utf-8")).hexdigest()
            if self._files.get(source.path, {}).get("digest") != digest:
                self._files[source.path] = {"digest": digest, "found": {}}
            self._checked.add(source.path)
        found: dict[str, Any] = self._files[source.path]["found"]
        return found

    def _look(self, source: Source, found: dict[str, Any]) -> None:
        """No garbage is collected meanwhile: there is none, and half of the time would go there."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            for name, rule in _rules.items():
                if name not in found:
                    found[name] = rule(source)
        finally:
            source.forget()
            if was_on:
                gc.enable()
        self._is_changed = True

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        is_ours = isinstance(kept, dict) and kept.get("edition") == self._edition
        files: dict[str, Any] = kept["files"] if is_ours else {}
        return files


def save() -> None:
    """For the end of a run."""
    _facts().save()


@cache
def _facts() -> Facts:
    return Facts(KEPT)


def _edition() -> str:
    """A digest of the code of the rules, with the Python that runs them."""
    digest = hashlib.sha256(sys.version.encode("ascii"))
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
