"""The second Python that continuous integration runs the tests on is found by what it says."""

from __future__ import annotations

from pathlib import Path

from release.pythons import candidates
from tests.newest_python import newest


def interpreter(path: Path, says: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_the_newest_that_counts_is_found_wherever_it_is(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.12", "3 12 4")
    interpreter(tmp_path / "bin" / "python3.15", "3 15 0")  # not tested with
    interpreter(tmp_path / "shims" / "python3.14", "3 14 0", status=127)  # pyenv's, without one
    interpreter(tmp_path / ".pyenv/versions/3.14.0b1/bin/python3", "")  # not released
    best = interpreter(tmp_path / ".pyenv/versions/3.13.0/bin/python3", "3 13 0")
    interpreter(tmp_path / ".local/share/uv/python/cpython-3.9.2-x/bin/python3", "3 9 2")

    among = candidates(f"{tmp_path}/bin:{tmp_path}/shims:{tmp_path}/none", tmp_path)

    assert newest(among, (3, 11)) == best


def test_another_of_the_same_minor_version_is_not_newer(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.11", "3 11 9")

    assert newest(candidates(f"{tmp_path}/bin", tmp_path), (3, 11, 7)) is None
