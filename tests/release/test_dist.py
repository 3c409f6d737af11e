"""`make dist`: what it makes is equal each time, and enough for a machine without a compiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from release.build import DISTRIBUTIONS, build
from release.requirements import NAME, write_requirements
from release.sbom import write_sbom
from tests.architecture.sources import ROOT
from tests.newest_python import OLDEST, candidates, version
from tests.wheels import UV, needs_uv, new_folder

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.deep, needs_uv]

PATIENCE_S = 180.0
CIBUILDWHEEL = "cibuildwheel>=3"
EPOCH = "1700000000"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make dist` leaves it."""
    folder = new_folder(tmp_path_factory.mktemp("dist"))
    made = build(folder, [sys.executable], EPOCH)
    write_sbom(folder, made)
    write_requirements(folder, made)
    return folder


def pythons() -> list[str]:
    """One interpreter of each version that moldau supports."""
    found: dict[tuple[int, ...], str] = {}
    for each in candidates(os.environ.get("PATH", ""), Path.home()):
        release = version(each)
        if release and release[:2] >= OLDEST:
            found.setdefault(release[:2], str(each.resolve()))
    return [python for _, python in sorted(found.items())]


def test_there_is_a_wheel_for_everywhere_one_for_here_and_a_source_archive(archives: Path) -> None:
    names = {each.name for each in archives.iterdir()}
    for name in ("moldau", *(f"moldau_{each}" for each in DISTRIBUTIONS)):
        assert any(re.fullmatch(rf"{name}-[\d.]+-py3-none-any\.whl", each) for each in names)
        assert any(re.fullmatch(rf"{name}-[\d.]+\.tar\.gz", each) for each in names)
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert any(each.startswith("moldau_platform-") and f"-{tag}-" in each for each in names)
    assert not list(archives.glob(".*"))


def test_the_wheel_of_moldau_brings_the_man_pages(archives: Path) -> None:
    (wheel,) = archives.glob("moldau-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert any(each.endswith(".data/data/share/man/man1/moldau-topic.1") for each in names)


def test_two_builds_are_equal(archives: Path, tmp_path: Path) -> None:
    again = build(tmp_path, [sys.executable], EPOCH)
    made = {*again, write_sbom(tmp_path, again), write_requirements(tmp_path, again)}

    assert {each.name for each in made} == {each.name for each in archives.iterdir()}
    for each in archives.iterdir():
        assert (tmp_path / each.name).read_bytes() == each.read_bytes(), each.name


@pytest.fixture
def without_a_compiler(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has nothing but the shell's simplest tools."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for each in ("sh", "env"):
        found = shutil.which(each)
        assert found
        (tools / each).symlink_to(found)
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "CC"}
    return {each: os.environ[each] for each in os.environ.keys() - hidden} | {"PATH": str(tools)}


@pytest.mark.parametrize("python", pythons())
def test_a_bare_python_has_a_running_broker(
    python: str,
    archives: Path,
    tmp_path: Path,
    without_a_compiler: dict[str, str],
) -> None:
    home = tmp_path / "installed"
    subprocess.run([UV, "venv", "-q", "-p", python, home], check=True)  # noqa: S603
    installs = ["pip", "install", "-q", "--compile-bytecode", "--only-binary", ":all:"]
    words: list[str | Path] = [UV, *installs, "-p", home / "bin" / "python"]
    ours: list[str | Path] = ["--no-deps", "-r", archives / NAME]
    others: list[str | Path] = ["-c", ROOT / "constraints.txt", "moldau"]
    for more in (ours, others):
        done = subprocess.run(  # noqa: S603
            [*words, *more], env=without_a_compiler, capture_output=True, text=True, check=False
        )
        if done.returncode and "Failed to fetch" in done.stderr:
            pytest.skip(f"what it needs cannot be fetched: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr

    said = subprocess.check_output(  # noqa: S603
        [home / "bin" / "python", "-m", "moldau", "version", "--json"],
        env=without_a_compiler, text=True, cwd=tmp_path,
    )  # fmt: skip
    is_built_here = json.loads(said)["python"].split(".")[:2] == [*map(str, sys.version_info[:2])]
    assert json.loads(said)["record-kernel"] == ("compiled" if is_built_here else "pure")
    seconds = starts_within(home, tmp_path, without_a_compiler)
    print(f"the broker answered after {seconds:.1f} s")


def starts_within(home: Path, folder: Path, environment: dict[str, str]) -> float:
    """Seconds until the broker of the README answers; it is stopped again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    moldau = home / "bin" / "moldau"
    began = time.monotonic()
    with (folder / "broker.log").open("wb") as log:
        broker = subprocess.Popen(  # noqa: S603
            [moldau, "broker", "start", "--listen", address, "--data", folder / "data"],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while time.monotonic() - began < PATIENCE_S:
                asked = subprocess.run(  # noqa: S603
                    [moldau, "topic", "create", "orders", "-b", address],
                    env=environment, capture_output=True, check=False,
                )  # fmt: skip
                if asked.returncode == 0:
                    return time.monotonic() - began
                assert broker.poll() is None, (folder / "broker.log").read_text()
            raise AssertionError((folder / "broker.log").read_text())
        finally:
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(timeout=60) == 0


def test_cibuildwheel_understands_its_settings(tmp_path: Path) -> None:
    """It needs containers to build; which wheels it would build, it says without any."""
    subprocess.run([UV, "venv", "-q", tmp_path / "tool"], check=True)  # noqa: S603
    python = tmp_path / "tool" / "bin" / "python"
    installed = subprocess.run(  # noqa: S603
        [UV, "pip", "install", "-q", "-p", python, CIBUILDWHEEL], capture_output=True, check=False
    )
    if installed.returncode:
        pytest.skip("cibuildwheel cannot be fetched")
    words: list[str | Path] = [
        python,
        "-m",
        "cibuildwheel",
        "--platform",
        "linux",
        "--print-build-identifiers",
    ]
    said = subprocess.check_output([*words, ROOT / "platform"], text=True)  # noqa: S603

    assert set(said.split()) == {
        f"cp3{minor}-{system}_{machine}"
        for minor in (11, 12, 13, 14)
        for system in ("manylinux", "musllinux")
        for machine in ("x86_64", "aarch64")
    }
