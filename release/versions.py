"""The version of this repository: where it stands, whether all places agree, and how it is set.

    python -m release version            # prints it, or the places that differ
    python -m release version 0.2.0      # sets it everywhere
    python -m release version 0.2.0 --dated   # and gives the changelog's section its name and date

Invariants: `PLACES` has every file with the version, and each pattern of a place is found there. A
version is three numbers; it never goes down.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FIRST: Final = "0.1.0"
COMMITS: Final = {FIRST: "ae7892b7161eff5706e634ce1c03096539f717be"}
"""0.1.0 was never published. It is this commit: 0.2.0 takes over its data and its files."""
CHANGELOG: Final = "CHANGELOG.md"
UNRELEASED: Final = "Unreleased"
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_PINNED: Final = r"(?m)\bmoldau(?:-\w+)?(?:\[[\w,-]+\])?==(\d[\w.]*)\""
_OWN: Final = r'(?m)^version = "(\d[^"]*)"$'
_SECTION: Final = r"(?m)^## (.+)$"


class VersionRefused(Exception):
    """A version that cannot be set, or places that do not agree; the text says which."""


class Place(NamedTuple):
    """A file with the version; each pattern has it as its first group."""

    path: str
    patterns: tuple[str, ...]
    is_short: bool = False
    """Whether it has major and minor alone."""


PLACES: Final = (
    *(
        Place(f"{folder}pyproject.toml", (_OWN, _PINNED))
        for folder in ("", "broker/", "streams/", "connect/", "connectors/")
    ),
    Place("platform/pyproject.toml", (_OWN,)),
    Place("docker/helm/moldau/Chart.yaml", (r"(?m)^version: (\S+)$", r"(?m)^appVersion: (\S+)$")),
    Place("docs/containers.md", (r"image\.tag=(\S+)", r"tag: ([\d.]+)\}")),
    Place("docs/versions.md", (r"This tree is (\d+\.\d+\.\d+)",)),
    Place("platform/moldau/link/connection.py", (r'SOFTWARE_VERSION: Final = "(\S+)"',), True),
)


def version_of(root: Path = ROOT) -> str:
    """Return the version of the distribution that brings all others."""
    found = re.search(_OWN, (root / "pyproject.toml").read_text(encoding="utf-8"))
    assert found is not None, "pyproject.toml has a version"
    return found[1]


def disagreements(root: Path = ROOT) -> list[str]:
    """Return the places that have another version than the whole."""
    version = version_of(root)
    found = []
    for place, line, stated in _stated(root):
        expected = _for(place, version)
        if stated != expected:
            found.append(f"{place.path}:{line} has {stated}, not {expected}")
    return found


def set_version(root: Path, version: str) -> list[str]:
    """Set the version in all places, and return the changed files. Raise VersionRefused."""
    if not _VERSION.fullmatch(version):
        raise VersionRefused(f"{version!r} is no version: three numbers, as 0.2.0")
    now = version_of(root)
    if _numbers(version) < _numbers(now):
        raise VersionRefused(f"{version} is below {now}, which this tree has")
    changed = []
    for place in PLACES:
        path = root / place.path
        before = text = path.read_text(encoding="utf-8")
        replace = partial(_replaced, version=_for(place, version))
        for pattern in place.patterns:
            text = re.sub(pattern, replace, text)
        if text != before:
            path.write_text(text, encoding="utf-8")
            changed.append(place.path)
    return changed


def date_changelog(root: Path, version: str, day: str) -> None:
    """Name the section of what is unreleased after the version. Raise VersionRefused."""
    path = root / CHANGELOG
    text = path.read_text(encoding="utf-8")
    if f"## {UNRELEASED}\n" not in text:
        raise VersionRefused(f"{CHANGELOG} has no section {UNRELEASED}")
    path.write_text(text.replace(f"## {UNRELEASED}\n", f"## {version} ({day})\n"), "utf-8")


def changes(root: Path, version: str) -> str:
    """Return the changelog's section of a version. Raise VersionRefused if there is none, or more
    stands there than this version has."""
    text = (root / CHANGELOG).read_text(encoding="utf-8")
    sections = list(re.finditer(_SECTION, text))
    if not sections or not re.fullmatch(
        rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", sections[0][1]
    ):
        newest = sections[0][1] if sections else "nothing"
        raise VersionRefused(
            f"{CHANGELOG} begins with {newest}: `python -m release version {version} --dated` "
            "names the section; commit that"
        )
    end = sections[1].start() if len(sections) > 1 else len(text)
    return text[sections[0].start() : end].strip() + "\n"


def main(words: list[str]) -> int:
    asked = argparse.ArgumentParser(prog="release version", description="print or set the version")
    asked.add_argument("version", nargs="?", help="set this one everywhere")
    asked.add_argument(
        "--dated", action="store_true", help="name the changelog's section after it, with the date"
    )
    given = asked.parse_args(words)
    if given.dated and given.version is None:
        asked.error("--dated is for a version that is given")
    try:
        if given.version is not None:
            for path in set_version(ROOT, given.version):
                print(f"set in {path}")
        if given.dated:
            date_changelog(ROOT, given.version, f"{datetime.now(UTC):%Y-%m-%d}")
            print(f"named in {CHANGELOG}")
    except VersionRefused as refused:
        print(f"release: {refused}", file=sys.stderr)
        return 1
    wrong = disagreements()
    print("\n".join(wrong) if wrong else version_of())
    return 1 if wrong else 0


def _stated(root: Path) -> Iterator[tuple[Place, int, str]]:
    """Yield each version in a place, with its line; an empty one where a pattern has none."""
    for place in PLACES:
        text = (root / place.path).read_text(encoding="utf-8")
        for pattern in place.patterns:
            matches = list(re.finditer(pattern, text))
            if not matches:
                yield place, 0, ""
            for each in matches:
                yield place, text.count("\n", 0, each.start(1)) + 1, each[1]


def _for(place: Place, version: str) -> str:
    return version.rpartition(".")[0] if place.is_short else version


def _replaced(found: re.Match[str], version: str) -> str:
    begin, end = found.start(1) - found.start(), found.end(1) - found.start()
    return found[0][:begin] + version + found[0][end:]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version))
