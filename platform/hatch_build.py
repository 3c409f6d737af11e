"""Builds the one compiled module, `moldau.records._speed`, or says why not and goes on without.

Invariant: an installation never fails because of it. Without a C compiler, with a broken one, on
another Python than CPython or with MOLDAU_PURE=1, what comes out is a pure-Python installation in
which `moldau.records.KERNEL` is "pure".

A wheel gets the module and a platform tag; an editable installation gets it in place, beside its
source. Cython runs here, so neither the repository nor the source distribution carries C.
Two builds by one compiler are equal, byte by byte.

Wheels for other systems than this machine are made by `make dist` (release/kernels.py).

A wheel is for one version of Python (cp311, not abi3): the kernel reads lists, tuples and bytes by
macros and reuses records through a free list, neither of which the limited API has.
"""

# The build's own modules are not installed where mypy runs.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call,unused-ignore"

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from contextlib import chdir
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("moldau/records")
MODULE = "moldau.records._speed"
REASON_MAX = 120


def reason_for_pure() -> str | None:
    """Why not even to try, or None."""
    if os.environ.get("MOLDAU_PURE", "0") not in ("", "0"):
        return "MOLDAU_PURE is set"
    if platform.python_implementation() != "CPython":
        return "only CPython can use it"
    return None


def _arguments() -> list[str]:
    """What a compiler like GCC is told: debugging data would name the folder of this build, so that
    no two builds were equal."""
    return [] if sys.platform == "win32" else ["-g0"]


def compile_kernel(source: Path, folder: Path) -> Path:
    """The module compiled from `source` and what it includes, somewhere in `folder`; whatever
    fails, raises."""
    from Cython.Build import cythonize
    from setuptools import Extension

    copy = folder / "source" / PACKAGE / source.name
    copy.parent.mkdir(parents=True)
    for part in (source, *source.parent.glob("*.pxi")):
        shutil.copyfile(part, copy.parent / part.name)
    extension = Extension(MODULE, [str(PACKAGE / source.name)], extra_compile_args=_arguments())
    with chdir(folder / "source"):  # Cython keeps the paths of included files in the module
        extensions = cythonize([extension], quiet=True, force=True)
        _build(extensions, folder)
    return next((folder / "library" / PACKAGE).iterdir())


def _build(extensions: list[Any], folder: Path) -> None:
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"name": "moldau-platform", "ext_modules": extensions}))
    command.build_lib = str(folder / "library")
    command.build_temp = str(folder / "objects")
    command.ensure_finalized()
    command.run()


class KernelBuildHook(BuildHookInterface):
    """hatchling calls `initialize` before it collects a wheel's files, `finalize` after."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What an isolated build has to fetch; nothing where nothing is compiled."""
        if self.target_name != "wheel" or reason_for_pure():
            return []
        return ["cython>=3.1", "setuptools>=77"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        package = Path(self.root) / PACKAGE
        is_editable = version == "editable"
        if is_editable:  # what an earlier build left would hide that this one has none
            for suffix in EXTENSION_SUFFIXES:  # those that this Python would import
                (package / f"_speed{suffix}").unlink(missing_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="moldau-kernel-"))
        built = self._try_to_compile(package / "_speed.pyx")
        if built is None:
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if is_editable:
            shutil.copyfile(built, package / built.name)
        else:
            build_data["force_include"][str(built)] = str(PACKAGE / built.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name == "wheel":
            shutil.rmtree(self._folder, ignore_errors=True)

    def _try_to_compile(self, source: Path) -> Path | None:
        reason = reason_for_pure()
        if reason is None:
            try:
                return compile_kernel(source, self._folder)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
        print(
            f"moldau: no compiled record kernel, plain Python instead ({reason})", file=sys.stderr
        )
        return None
