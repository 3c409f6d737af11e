"""Clients in Go and JavaScript: fetched and built once, into the user's cache.

Go's module proxy and npm's registry are asked through `go` and `npm`, with whatever settings this
machine has for them. Where one of them is missing, or gets nothing, the tests are skipped with the
reason. A folder in the cache is named by what it was made from, is made beside it and renamed, so
that what is there is whole and never stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

KAFKAJS: Final[Mapping[str, str]] = {"kafkajs": "2.2.4", "kafkajs-snappy": "1.1.0"}
_TIMEOUT_S: Final = 900
_GO: Final = Path(__file__).parent / "programs" / "go"


def node_modules() -> tuple[str, Path]:
    """The `node` to run and a folder with kafkajs and its codecs."""
    return npm_modules("kafkajs", KAFKAJS)


def npm_modules(name: str, packages: Mapping[str, str]) -> tuple[str, Path]:
    """The `node` to run and a folder with these packages; `name` is the cache's."""
    node, npm = _program("node"), _program("npm")
    manifest = json.dumps({"private": True, "dependencies": dict(packages)})
    folder = _cache(name, manifest.encode())
    if not folder.is_dir():
        with _making(folder) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            (made / "package.json").write_text(manifest, encoding="utf-8")
            _run((npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"), made)
            _publish(made, folder)
    return node, folder / "node_modules"


def go_program(name: str) -> str:
    """The path of the program that was built from `programs/go/<name>`."""
    go = _program("go")
    sources = sorted((*(_GO / "jobs").iterdir(), *(_GO / name).iterdir()))
    folder = _cache(f"go-{name}", b"".join(each.read_bytes() for each in sources))
    if not folder.is_dir():
        with _making(folder) as scratch:
            work = Path(scratch) / "work"
            for part in ("jobs", name):
                shutil.copytree(_GO / part, work / part)
            made = Path(scratch) / "made"
            environment = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
            _run((go, "mod", "tidy"), work / name, environment)
            _run((go, "build", "-trimpath", "-o", str(made / name), "."), work / name, environment)
            _publish(made, folder)
    return str(folder / name)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _cache(name: str, made_from: bytes) -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(root) if root else Path.home() / ".cache") / "moldau" / "conformance"
    return cache / f"{name}-{hashlib.sha256(made_from).hexdigest()[:12]}"


def _making(folder: Path) -> tempfile.TemporaryDirectory[str]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-")


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - a tool that was found, with our arguments
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command[:3])} took more than {_TIMEOUT_S} s here; again it goes on")
    if done.returncode != 0:
        told = (done.stderr + done.stdout).strip()
        if "error TS" in told or ".go:" in told:
            raise AssertionError(f"our program does not build: {told[-3000:]}")
        pytest.skip(f"{' '.join(command[:3])} failed here: {told[-300:]}")


def _publish(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another session was first, and its copy is as good
            raise
