"""Wheels of our own distributions, built as an installation builds them.

The build runs apart from this environment, so what it needs comes from the package index: where
that cannot be reached, the test skips and says what was not there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import DISTRIBUTIONS, ROOT

UV = Path(sys.executable).with_name("uv")

needs_uv = pytest.mark.skipif(not UV.exists(), reason="uv is not beside this Python")


def run_uv(*arguments: str | Path, **environment: str) -> str:
    """What uv says when it does that; skips where the index cannot be reached."""
    done = subprocess.run(  # noqa: S603 - our own build
        [UV, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "Failed to fetch" in done.stderr:
        pytest.skip(f"what it needs cannot be fetched: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def install(home: Path, *requirements: str | Path) -> None:
    """A new environment with these, in the versions of this repository.

    All of it comes from uv's cache if that is possible: an index that says of every answer that it
    is stale would make uv fetch and build the same again."""
    run_uv("venv", "-q", home)
    words = ["pip", "install", "-q", "-p", home / "bin" / "python",
             "-c", ROOT / "constraints.txt", *requirements]  # fmt: skip
    cached = subprocess.run(  # noqa: S603 - our own build
        [UV, *words, "--offline"], capture_output=True, check=False
    )
    if cached.returncode:
        run_uv(*words)


def own_wheels(folder: Path, extra: str = "") -> list[str]:
    """Our wheels of a folder, each by its file, as an index may have a stranger's of the name. The
    one with the kernel counts before the one for everywhere."""
    found: dict[str, Path] = {}
    for wheel in sorted(folder.glob("moldau*.whl"), reverse=True):
        found[wheel.name.partition("-")[0].replace("_", "-")] = wheel
    extras = {"moldau": f"[{extra}]"} if extra else {}
    return [f"{name}{extras.get(name, '')} @ {file.as_uri()}" for name, file in found.items()]


def new_folder(parent: Path) -> Path:
    """A folder for wheels, with a new name: uv's cache takes a wheel of the same path
    and version for the same wheel."""
    folder = parent / secrets.token_hex(8)
    folder.mkdir()
    return folder


def build_wheel(distribution: str, folder: Path, **environment: str) -> tuple[Path, str]:
    """The wheel of the distribution in that folder of the repository, and what its build said."""
    source, out = folder / distribution, folder / f"{distribution}-wheel"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / distribution, source, ignore=ignored)
    said = run_uv("build", "--wheel", "--python", sys.executable, "-o", out, source, **environment)
    (built,) = out.glob("*.whl")
    return built, said


def all_wheels(parent: Path) -> Path:
    """A folder with the wheels of the five distributions and of the one that brings them all,
    without the compiled kernel."""
    folder = new_folder(parent)
    for each in DISTRIBUTIONS:
        wheel, _ = build_wheel(each, folder, MOLDAU_PURE="1")
        shutil.move(wheel, folder)
    whole = folder / "whole"
    whole.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, whole)
    run_uv("build", "-q", "--wheel", "-o", folder, whole)
    return folder
