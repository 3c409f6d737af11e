"""Builds every distribution into one folder: a source archive and wheels.

Invariants: sources are copied first, so nothing that lies in the tree gets into an archive; two
builds of one commit with one compiler are equal, byte by byte (SOURCE_DATE_EPOCH is the commit's
date unless it is set); the wheels of the platform are one for each kernel (`release.kernels`), one
for each Python that it is compiled for by this machine's compiler, and one that fits everywhere,
without a kernel. An installer takes the first that fits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from release.kernels import (
    Kernel,
    KernelFailed,
    compile_kernel,
    copy_headers,
    has_compiler,
    translate,
)
from release.man import write as write_man
from release.retag import with_module

ROOT: Final = Path(__file__).parents[1]
DISTRIBUTIONS: Final = ("platform", "broker", "streams", "connect", "connectors")
_OLDEST_EPOCH: Final = 315_532_800  # 1980: a zip file knows nothing older
_LEFT: Final = shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__", "*.egg-info")
_MAN: Final = "share/man/man1"
_WHOLE: Final = ("pyproject.toml", "README.md", "LICENSE")


class BuildFailed(Exception):
    """A build ended with an error; the text is what it said."""


def build(
    out: Path, pythons: Sequence[str], epoch: str | None = None, kernels: Sequence[Kernel] = ()
) -> list[Path]:
    """Empty `out` of earlier archives, fill it, and return the files, sorted. Raise BuildFailed.
    `epoch` is the date of what is in the archives, in seconds since 1970."""
    if kernels and not has_compiler():
        raise BuildFailed("zig is not installed: `make dist` installs it (the group `release`)")
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("moldau*.whl"), *out.glob("moldau*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="moldau-dist-") as folder:
        epoch = epoch or _epoch()
        for name in (*DISTRIBUTIONS, "moldau"):
            source = _copied(name, Path(folder))
            _uv(["build", "--sdist", "-o", out, source], epoch)
            _uv(["build", "--wheel", "-o", out, source], epoch, MOLDAU_PURE="1")
        for python in dict.fromkeys(pythons):
            command: list[str | Path] = ["build", "--wheel", "--python", python, "-o", out]
            _uv([*command, Path(folder) / "platform"], epoch)
        if kernels:
            _add_kernels(out, kernels, Path(folder))
    (out / ".gitignore").unlink(missing_ok=True)
    return sorted((*out.glob("moldau*.whl"), *out.glob("moldau*.tar.gz")))


def _add_kernels(out: Path, kernels: Sequence[Kernel], folder: Path) -> None:
    """Compile all, as many at a time as there are cores, and make a wheel of each."""
    (plain,) = out.glob("moldau_platform-*-py3-none-any.whl")
    workshop = folder / "kernels"
    try:
        source = translate(folder / "platform", workshop)
        for headers in {each.headers for each in kernels}:
            copy_headers(headers, workshop)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            built = threads.map(lambda each: compile_kernel(each, workshop, source), kernels)
            modules = list(built)
    except KernelFailed as failure:
        raise BuildFailed(str(failure)) from failure
    for kernel, module in zip(kernels, modules, strict=True):
        with_module(plain, kernel.module, module, kernel.tag)


def _copied(name: str, folder: Path) -> Path:
    """Copy the sources of a distribution; those of `moldau` are three files of the root,
    and the man pages."""
    target = folder / name
    if name != "moldau":
        shutil.copytree(ROOT / name, target, ignore=_LEFT)
        return target
    target.mkdir()
    for each in _WHOLE:
        shutil.copyfile(ROOT / each, target / each)
    # File by file: hatchling leaves a folder out where nothing else is selected.
    pages = [f'"man/{page.name}" = "{_MAN}/{page.name}"\n' for page in write_man(target / "man")]
    with (target / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.writelines(["\n[tool.hatch.build.targets.wheel.shared-data]\n", *pages])
    return target


def _epoch() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or str(_OLDEST_EPOCH)


def _uv(words: Sequence[str | Path], epoch: str, **environment: str) -> None:
    """Run uv. The build's own tools have the versions of constraints.txt."""
    uv = Path(sys.executable).with_name("uv")
    pinned: list[str | Path] = ["--build-constraints", ROOT / "constraints.txt"]
    done = subprocess.run(  # noqa: S603
        [uv, *words, "-q", *pinned],
        env=os.environ | {"SOURCE_DATE_EPOCH": epoch} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildFailed(f"uv {' '.join(map(str, words))}\n{done.stderr.strip()}")
