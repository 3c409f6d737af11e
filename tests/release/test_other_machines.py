"""The kernel for aarch64 at work: Debian's Python of that machine, under qemu, in a folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from release.kernels import SYSTEMS, Kernel, compile_kernel, copy_headers, translate
from release.pythons import all_headers
from release.retag import with_module
from tests.architecture.sources import ROOT
from tests.wheels import build_wheel, needs_uv, new_folder, run_uv

QEMU: Final = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
AGREEMENT: Final = Path(__file__).with_name("kernels_agree.py")
PACKAGES: Final = (
    "libc6", "libgcc-s1", "zlib1g", "libexpat1",
    "python{0}-minimal", "libpython{0}-minimal", "libpython{0}-stdlib",
)  # fmt: skip
VERSION: Final = re.compile(r"^Version: (3\.\d+)\.", re.MULTILINE)

pytestmark = [
    pytest.mark.hunt, pytest.mark.deep, pytest.mark.slow, pytest.mark.real, needs_uv,
    pytest.mark.skipif(find_spec("ziglang") is None, reason="needs zig: make peers"),
    pytest.mark.skipif(QEMU is None, reason="needs qemu-user-static"),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs Debian's apt-get"),
]  # fmt: skip


def apt(folder: Path, *words: str) -> str:
    """What apt says about Debian for aarch64; nothing of this machine's packages is changed."""
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures::": "arm64",
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        "Dir::State::status": os.devnull,
    }
    for each in ("lists/partial", "cache/archives/partial", "packages"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    done = subprocess.run(  # noqa: S603
        [words[0], *given, *words[1:]],
        cwd=folder / "packages",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"Debian's packages for aarch64 are not to be had: {done.stderr.strip()}")
    return done.stdout


@pytest.fixture
def foreign(tmp_path: Path) -> tuple[Path, str]:
    """A folder like the root of an aarch64 machine, and its Python's version."""
    apt(tmp_path, "apt-get", "update", "-qq")
    (version, *_) = VERSION.findall(apt(tmp_path, "apt-cache", "show", "python3-minimal"))
    apt(tmp_path, "apt-get", "download", "-qq", *(each.format(version) for each in PACKAGES))
    for package in (tmp_path / "packages").glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, tmp_path / "root"], check=True)  # noqa: S603, S607
    return tmp_path / "root", version


def wheel_for(version: str, folder: Path) -> Path:
    """The platform's wheel with the kernel for that Python on aarch64."""
    minor = tuple(map(int, version.split(".")))
    headers = all_headers((), os.environ.get("PATH", ""), Path.home())
    found = {tag: each for tag, each in headers.items() if tag == minor}
    if not found:
        pytest.skip(f"there are no headers of Python {version} here")
    system = next(each for each in SYSTEMS if each.name == "manylinux_aarch64")
    kernel = Kernel(system, found.popitem()[1])
    plain, _ = build_wheel("platform", new_folder(folder), MOLDAU_PURE="1")
    source = translate(ROOT / "platform", folder / "workshop")
    copy_headers(kernel.headers, folder / "workshop")
    module = compile_kernel(kernel, folder / "workshop", source)
    return with_module(plain, kernel.module, module, kernel.tag)


def test_the_kernel_for_aarch64_agrees_with_plain_python_there(
    foreign: tuple[Path, str], tmp_path: Path
) -> None:
    root, version = foreign
    wheel = wheel_for(version, tmp_path)
    target: list[str | Path] = ["--target", tmp_path / "installed", "--only-binary", ":all:"]
    place = ["--python-platform", "aarch64-manylinux_2_28", "--python-version", version]
    run_uv("pip", "install", "-q", *target, *place, "-c", ROOT / "constraints.txt", wheel)
    assert QEMU is not None
    done = subprocess.run(  # noqa: S603
        [QEMU, "-L", root, root / "usr" / "bin" / f"python{version}", AGREEMENT],
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("-aarch64-linux-gnu.so")
    assert str(tmp_path) in done.stdout
