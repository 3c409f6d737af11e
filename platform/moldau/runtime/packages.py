"""The entry points of the installed packages, read from their folders.

    for package in installed_packages():
        package.entry_points("moldau.")

Invariants: the packages and their order are those of `importlib.metadata`, for the parts of
`sys.path` that are text (an import ignores the others); the name and version of a package are read
only if it has a wanted entry point.

Why not `importlib.metadata` itself: its import (email, zipfile, csv) and one parsed METADATA file
an entry point took a third of the time of `moldau topic list`. It is still used where packages are
not plain folders: in a zip file, in an egg, or behind another import hook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from typing import Final, NamedTuple

_SUFFIXES: Final = (".dist-info", ".egg-info")
_DECLARED: Final = "entry_points.txt"


class PackageName(NamedTuple):
    """The name and version that a package's metadata state."""

    name: str
    version: str


class PackageEntryPoint(NamedTuple):
    """One entry point; `value` is `module:attribute`."""

    group: str
    name: str
    value: str
    dist: PackageName


class Package:
    """An installed package, by the folder of its metadata."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def entry_points(self, prefix: str) -> list[PackageEntryPoint]:
        """Return the entry points of the groups that start with `prefix`. Raise ValueError or
        OSError if the files are damaged."""
        text = self._read(_DECLARED)
        if text is None:
            return []
        wanted = [each for each in parse_entry_points(text) if each[0].startswith(prefix)]
        if not wanted:
            return []
        named = self.named()
        return [PackageEntryPoint(group, name, value, named) for group, name, value in wanted]

    def named(self) -> PackageName:
        """Return the name and version. Raise ValueError if the metadata lack one."""
        for file in ("METADATA", "PKG-INFO"):
            text = self._read(file)
            if text is not None:
                return _named(_header(text))
        return _named({})

    @property
    def basename(self) -> str:
        """The name of the metadata's folder: it begins with the name of the package."""
        return os.path.basename(self.folder)

    def extras(self) -> list[str]:
        """Return the names of the extras that the metadata declare."""
        return self._values("Provides-Extra:")

    def requirements(self) -> list[str]:
        """Return what the metadata say that the package needs, for each extra too."""
        return self._values("Requires-Dist:")

    def _values(self, field: str) -> list[str]:
        text = self._read("METADATA") or self._read("PKG-INFO") or ""
        head, _, _ = text.partition("\n\n")
        return [
            line.removeprefix(field).strip() for line in head.splitlines() if line.startswith(field)
        ]

    def _read(self, file: str) -> str | None:
        try:
            with open(os.path.join(self.folder, file), encoding="utf-8") as opened:
                return opened.read()
        except (FileNotFoundError, NotADirectoryError):
            return None


class ForeignPackage(Package):
    """A package that only `importlib.metadata` can read."""

    def __init__(self, path: str, distribution: object) -> None:
        super().__init__(path)
        self._distribution = distribution

    def _read(self, file: str) -> str | None:
        read = getattr(self._distribution, "read_text", None)
        text = None if read is None else read(file)
        return text if isinstance(text, str) else None


def import_path() -> tuple[str, ...]:
    """Return the parts of `sys.path` that an import looks at: it ignores what is no text."""
    given: list[object] = [*sys.path]
    return tuple(each for each in given if isinstance(each, str))


def installed_packages(path: Sequence[str] | None = None) -> Iterator[Package]:
    """Yield the packages of this Python, or of this path. If two have one name, an import finds the
    first."""
    parts = import_path() if path is None else path
    found = None if _has_other_finders() else _folders(parts)
    if found is not None:
        yield from map(Package, found)
        return
    from importlib.metadata import distributions

    for each in distributions(path=list(parts)):
        folder = getattr(each, "_path", None) or each.locate_file("")
        yield ForeignPackage(str(folder), each)


def version_of(distribution: str) -> str | None:
    """Return the version of an installed package, or None."""
    wanted = normalized(distribution)
    for package in installed_packages():
        if wanted in normalized(package.basename):
            try:
                named = package.named()
            except (ValueError, OSError):
                continue
            if normalized(named.name) == wanted:
                return named.version
    return None


def normalized(name: str) -> str:
    """Return the form of a package's name in which two spellings of it are equal."""
    return name.lower().replace("_", "-").replace(".", "-")


def parse_entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and value of each line. Raise ValueError for a line that is none."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if not equals or not group:
            raise ValueError(f"{_DECLARED} has the line {line!r}")
        yield group, name.strip(), value.strip()


def _has_other_finders() -> bool:
    return any(
        each is not PathFinder and hasattr(each, "find_distributions") for each in sys.meta_path
    )


def _folders(path: Iterable[str]) -> list[str] | None:
    """Return the metadata folders on the path; None if a part of it is no plain folder."""
    found = []
    for part in path:
        try:
            names = os.listdir(part or ".")
        except NotADirectoryError:
            return None
        except OSError:
            continue  # it does not exist or cannot be read
        if part.endswith(".egg"):
            return None
        found += [os.path.join(part, each) for each in names if each.endswith(_SUFFIXES)]
    return found


def _header(text: str) -> dict[str, str]:
    """Return the first value of each field above the first empty line."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if not line:
            break
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields.setdefault(name.lower(), value.strip())
    return fields


def _named(fields: dict[str, str]) -> PackageName:
    name, version = fields.get("name"), fields.get("version")
    if not name or not version:
        raise ValueError("the metadata say no name or no version")
    return PackageName(name, version)
