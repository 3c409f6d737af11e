"""The record kernel for Linux systems of other libraries and machines, compiled here by zig.

Invariants: what comes out needs no symbol that a system of its tag lacks, as zig links against that
version of the C library; it depends on the sources, the headers and zig's version alone, and on no
folder of this machine, so two builds are equal, byte by byte.

The headers are those of a Python of this machine for all systems: on 64-bit Linux pyconfig.h
differs in nothing that the kernel is compiled by. `_SIZES` stops a compiler that sees otherwise.

One kernel is for one version of Python: with the limited API (abi3) encoding takes 1.8 times as
long and decoding for a consumer 1.5 times, as records are made without a free list, and lists,
tuples and bytes are read by calls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from release.pythons import Headers

PACKAGE: Final = Path("moldau/records")
_SIZES: Final = """\
#include "pyconfig.h"
#include <stddef.h>
#include <time.h>
_Static_assert(sizeof(short) == SIZEOF_SHORT && sizeof(int) == SIZEOF_INT, "pyconfig.h: int");
_Static_assert(sizeof(long) == SIZEOF_LONG && sizeof(long) == 8, "pyconfig.h: long");
_Static_assert(sizeof(void *) == SIZEOF_VOID_P, "pyconfig.h: pointers");
_Static_assert(sizeof(size_t) == SIZEOF_SIZE_T, "pyconfig.h: size_t");
_Static_assert(sizeof(wchar_t) == SIZEOF_WCHAR_T, "pyconfig.h: wchar_t");
_Static_assert(sizeof(time_t) == SIZEOF_TIME_T, "pyconfig.h: time_t");
_Static_assert(sizeof(double) == SIZEOF_DOUBLE, "pyconfig.h: double");
"""
# As CPython's own builds, without what names a folder. zig would keep a register for debuggers.
_OPTIONS: Final = (
    "-shared", "-fPIC", "-O2", "-DNDEBUG", "-fwrapv", "-fno-strict-aliasing",
    "-fomit-frame-pointer", "-fno-sanitize=undefined", "-g0", "-s",
)  # fmt: skip


class KernelFailed(Exception):
    """The kernel does not compile; the text is what the compiler said."""


@dataclass(frozen=True, slots=True)
class System:
    """A kind of Linux: what zig calls it, wheels do, and the names of CPython's modules."""

    name: str
    target: str
    platform_tag: str
    triplet: str


SYSTEMS: Final = tuple(
    system
    for machine in ("x86_64", "aarch64")
    for system in (
        System(
            f"manylinux_{machine}",
            f"{machine}-linux-gnu.2.17",
            f"manylinux_2_17_{machine}.manylinux2014_{machine}",
            f"{machine}-linux-gnu",
        ),
        System(
            f"musllinux_{machine}",
            f"{machine}-linux-musl",
            f"musllinux_1_2_{machine}",
            f"{machine}-linux-musl",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One wheel to make: for a version of Python on a system."""

    system: System
    headers: Headers

    @property
    def tag(self) -> str:
        """Python, its ABI and the platform, as in the name of a wheel."""
        return f"{self.headers.tag}-{self.headers.tag}-{self.system.platform_tag}"

    @property
    def module(self) -> Path:
        """Where the module is in a wheel."""
        major, minor = self.headers.minor
        return PACKAGE / f"_speed.cpython-{major}{minor}-{self.system.triplet}.so"


def has_compiler() -> bool:
    """Whether zig is installed beside this Python."""
    return find_spec("ziglang") is not None


def translate(platform: Path, folder: Path) -> Path:
    """Let Cython write the kernel's C, which is the same for all; return its path below `folder`.
    `platform` is the distribution's folder."""
    target = folder / PACKAGE
    target.mkdir(parents=True)
    for part in (platform / PACKAGE).glob("*.px[di]"):
        shutil.copyfile(part, target / part.name)
    shutil.copyfile(platform / PACKAGE / "_speed.pyx", target / "_speed.pyx")
    command: list[str | Path] = [sys.executable, "-m", "cython", PACKAGE / "_speed.pyx"]
    _run([*command, "--module-name", "moldau.records._speed"], folder)
    return PACKAGE / "_speed.c"


def copy_headers(headers: Headers, folder: Path) -> None:
    """Copy them below `folder`, with a pyconfig.h that has its definitions itself."""
    include = folder / _include(headers)
    shutil.copytree(headers.folder, include)
    shutil.copyfile(headers.config, include / "pyconfig.h")
    (include / "sizes.h").write_text(_SIZES, encoding="ascii")


def compile_kernel(kernel: Kernel, folder: Path, source: Path) -> Path:
    """Compile `source`, a path below `folder`, where the headers are, and return the module. Raise
    KernelFailed."""
    include = _include(kernel.headers)
    built = Path("built") / kernel.system.name / kernel.module.name
    (folder / built).parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [sys.executable, "-m", "ziglang", "cc"]
    command += ["-target", kernel.system.target, *_OPTIONS]
    command += ["-include", include / "sizes.h", "-I", include, source, "-o", built]
    _run(command, folder)
    return folder / built


def _include(headers: Headers) -> Path:
    return Path("headers") / headers.tag


def _run(command: list[str | Path], folder: Path) -> None:
    done = subprocess.run(  # noqa: S603
        command,
        cwd=folder,
        env=os.environ | {"ZIG_LOCAL_CACHE_DIR": str(folder / "zig")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise KernelFailed(f"{' '.join(map(str, command[1:]))}\n{done.stderr.strip()}")
