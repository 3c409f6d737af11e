"""The newest Python of this machine: `python -m tests.newest_python` prints where it is.

It looks where interpreters usually are: on the path, and where pyenv and uv keep theirs. Counted
are released versions of CPython with its lock, up to the newest that moldau is tested with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
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


def candidates(path: str, home: Path) -> Iterator[Path]:
    """Files that may be interpreters."""
    for folder in path.split(os.pathsep):
        yield from sorted(Path(folder).glob("python3.[0-9]*[0-9]"))
    yield from sorted(home.glob(".pyenv/versions/*/bin/python3"))
    yield from sorted(home.glob(".local/share/uv/python/cpython-*/bin/python3"))


def version(python: Path) -> tuple[int, ...]:
    """What it says; () if it is none that counts, or does not run."""
    try:
        answer = subprocess.run(  # noqa: S603
            [python, "-c", ASK],
            capture_output=True,
            timeout=ANSWERS_WITHIN_S,
            check=True,
            text=True,
        )
        return tuple(map(int, answer.stdout.split()))
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()


def newest(among: Iterable[Path], than: tuple[int, ...]) -> Path | None:
    """The newest of them, if its minor version is newer than `than`."""
    versions = {python: version(python) for python in among}
    fitting = [
        (found, python)
        for python, found in versions.items()
        if than[:2] < found[:2] and OLDEST <= found[:2] <= NEWEST
    ]
    return max(fitting)[1] if fitting else None


def main() -> None:
    found = newest(candidates(os.environ.get("PATH", ""), Path.home()), sys.version_info[:2])
    if found is None:
        print(f"there is no newer Python than {sys.version.split()[0]} here", file=sys.stderr)
    else:
        print(found)


if __name__ == "__main__":
    main()
