"""The Pythons of this machine, and the headers that the kernel is compiled with.

Interpreters are looked for where they usually are: on the path, and where pyenv and uv keep theirs.
Counted are released versions of CPython with its lock, up to the newest that moldau is tested with.
Headers need no interpreter: a folder with Python.h will do, such as one of another distribution.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OLDEST: Final = (3, 11)
NEWEST: Final = (3, 14)
ASK: Final = (
    "import ensurepip, sys, sysconfig, venv; "
    "is_plain = sys.implementation.name == 'cpython' and sys.version_info.releaselevel == 'final'; "
    "is_free = sysconfig.get_config_var('Py_GIL_DISABLED'); "
    "print(*sys.version_info[:3] if is_plain and not is_free else '')"
)
ANSWERS_WITHIN_S: Final = 30
_VERSION: Final = re.compile(r"^#define PY_(MAJOR|MINOR)_VERSION\s+(\d+)", re.MULTILINE)
_UNFIT: Final = re.compile(r"^#define (Py_DEBUG|Py_GIL_DISABLED) 1", re.MULTILINE)


class NoHeaders(Exception):
    """A folder without the headers of a Python that moldau supports; the text says why."""


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of one minor version of CPython; `config` is pyconfig.h with its definitions."""

    folder: Path
    config: Path
    minor: tuple[int, int]

    @property
    def tag(self) -> str:
        """As in the name of a wheel: `cp311`."""
        return f"cp{self.minor[0]}{self.minor[1]}"


def candidates(path: str, home: Path) -> Iterator[Path]:
    """Files that may be interpreters."""
    for folder in path.split(os.pathsep):
        yield from sorted(Path(folder).glob("python3.[0-9]*[0-9]"))
    yield from sorted(home.glob(".pyenv/versions/*/bin/python3"))
    yield from sorted(home.glob(".local/share/uv/python/cpython-*/bin/python3"))


def version(python: Path) -> tuple[int, ...]:
    """What it says; () if it is none that counts, or does not run."""
    return tuple(map(int, _said(python, ASK).split()))


def headers_of(python: str | Path) -> Headers:
    """The headers that an interpreter is installed with. Raise NoHeaders."""
    said = _said(Path(python), "import sysconfig; print(sysconfig.get_path('include'))").strip()
    if not said:
        raise NoHeaders(f"{python} does not run")
    return headers_in(Path(said))


def headers_in(folder: Path) -> Headers:
    """Headers in a folder. Raise NoHeaders."""
    if not (folder / "Python.h").is_file():
        raise NoHeaders(f"{folder} has no Python.h (Debian: apt install python3-dev)")
    config = folder / "pyconfig.h"
    if "SIZEOF_LONG" not in config.read_text(encoding="utf-8"):
        # Debian: it includes that of the machine, which is in a folder beside.
        found = sorted(folder.parent.glob(f"*-linux-gnu*/{folder.name}/pyconfig.h"))
        if not found:
            raise NoHeaders(f"{folder} has a pyconfig.h without definitions")
        config = found[0]
    text = (folder / "patchlevel.h").read_text(encoding="utf-8")
    found_minor = {name: int(number) for name, number in _VERSION.findall(text)}
    minor = (found_minor.get("MAJOR", 0), found_minor.get("MINOR", 0))
    if not OLDEST <= minor <= NEWEST:
        raise NoHeaders(f"{folder} is of Python {minor[0]}.{minor[1]}, which is not supported")
    if _UNFIT.search(config.read_text(encoding="utf-8")):
        raise NoHeaders(f"{folder} is of a build for debugging, or without the lock")
    return Headers(folder, config, minor)


def all_headers(given: Iterable[Headers], path: str, home: Path) -> dict[tuple[int, int], Headers]:
    """By minor version: those that are given, and those of the interpreters of this machine."""
    found = {each.minor: each for each in given}
    for python in candidates(path, home):
        minor = version(python)[:2]
        if OLDEST <= minor <= NEWEST and minor not in found:
            try:
                headers = headers_of(python)
            except NoHeaders:
                continue
            found[headers.minor] = headers
    return dict(sorted(found.items()))


def missing(found: Iterable[tuple[int, int]]) -> list[str]:
    """The supported versions that are not among them: `3.14`."""
    minors = range(OLDEST[1], NEWEST[1] + 1)
    return [f"3.{minor}" for minor in minors if (3, minor) not in found]


def _said(python: Path, program: str) -> str:
    """What the interpreter prints; nothing if it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603
            [python, "-c", program],
            capture_output=True,
            timeout=ANSWERS_WITHIN_S,
            check=True,
            text=True,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    return answer.stdout
