"""The build hook: with a compiler, with a broken one, and told not to."""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.wheels import build_wheel, needs_uv, run_uv


def wheel(folder: Path, **environment: str) -> tuple[str, bool, str]:
    """Build a wheel; its tag, whether the kernel is inside, and what the build said."""
    built, said = build_wheel("platform", folder, **environment)
    inside = zipfile.ZipFile(built).namelist()
    assert "moldau/records/_pure.py" in inside
    has_kernel = any(name.startswith("moldau/records/_speed.cp") for name in inside)
    return built.stem.split("-", 2)[2], has_kernel, said


@pytest.mark.slow
@pytest.mark.real
@needs_uv
@pytest.mark.parametrize(
    ("environment", "why"),
    [({"MOLDAU_PURE": "1"}, "MOLDAU_PURE is set"), ({"CC": "/bin/false"}, "CompileError")],
)
def test_without_a_compiler_the_wheel_is_pure(
    tmp_path: Path, environment: dict[str, str], why: str
) -> None:
    tag, has_kernel, said = wheel(tmp_path, **environment)
    assert (tag, has_kernel) == ("py3-none-any", False)
    (line,) = [line for line in said.splitlines() if "plain Python" in line]
    assert why in line


@pytest.mark.slow
@pytest.mark.real
@needs_uv
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_with_a_compiler_the_wheel_has_the_kernel_and_a_platform(tmp_path: Path) -> None:
    tag, has_kernel, _ = wheel(tmp_path, MOLDAU_PURE="0")
    assert has_kernel
    assert tag.startswith(f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-")


@pytest.mark.slow
@pytest.mark.real
@needs_uv
def test_an_editable_installation_replaces_no_kernel_of_another_python(tmp_path: Path) -> None:
    source = tmp_path / "platform"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "platform", source, ignore=ignored)
    records = source / "moldau" / "records"
    (own, other) = (records / f"_speed{suffix}" for suffix in (EXTENSION_SUFFIXES[0], ".cp399.so"))
    for each in (own, other):
        each.touch()
    where = ("-p", sys.executable, "--target", tmp_path / "installed")

    run_uv("pip", "install", "-q", "--no-deps", *where, "-e", source, MOLDAU_PURE="1")

    assert not own.exists(), "it would hide that this installation is pure"
    assert other.exists()
