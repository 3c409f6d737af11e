"""`make dist`: what it makes is equal each time, and enough for a machine without a compiler."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from release.build import DISTRIBUTIONS, build
from release.kernels import SYSTEMS, Kernel, KernelFailed, compile_kernel, copy_headers
from release.pythons import OLDEST, Headers, NoHeaders, candidates, headers_of, version
from release.requirements import NAME, write_requirements
from release.sbom import write_sbom
from tests.architecture.sources import ROOT
from tests.wheels import UV, needs_uv, new_folder

needs_zig = pytest.mark.skipif(find_spec("ziglang") is None, reason="needs zig: make peers")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
pytestmark = [
    pytest.mark.slow, pytest.mark.real, pytest.mark.deep, needs_uv, needs_zig, on_linux,
]  # fmt: skip

PATIENCE_S = 180.0
CIBUILDWHEEL = "cibuildwheel>=3"
EPOCH = "1700000000"
AGREEMENT: Final = Path(__file__).with_name("kernels_agree.py")
OWN: Final = sys.version_info[:2]
HERE: Final = platform.machine()
OTHER: Final = {"x86_64": "aarch64"}.get(HERE, "x86_64")
MACHINES: Final = {"x86_64": 62, "aarch64": 183}
"""The numbers of ELF."""


def pythons() -> list[str]:
    """One interpreter of each version that moldau supports."""
    found: dict[tuple[int, ...], str] = {}
    for each in candidates(os.environ.get("PATH", ""), Path.home()):
        release = version(each)
        if release and release[:2] >= OLDEST:
            found.setdefault(release[:2], str(each.resolve()))
    return [python for _, python in sorted(found.items())]


def own_kernels() -> list[Kernel]:
    """For this Python: on this machine, and on the most foreign one."""
    systems = {each.name: each for each in SYSTEMS}
    headers = own_headers()
    return [Kernel(systems[f"manylinux_{HERE}"], headers),
            Kernel(systems[f"musllinux_{OTHER}"], headers)]  # fmt: skip


def own_headers() -> Headers:
    try:
        return headers_of(sys.executable)
    except NoHeaders as error:
        pytest.skip(str(error))


def newest_kernels() -> list[Kernel]:
    """For the newest Python of this machine, if it is another one. Those between have none, so that
    they show what a Python without a kernel gets."""
    try:
        newest = headers_of(pythons()[-1])
    except NoHeaders:
        return []
    return [Kernel(own_kernels()[0].system, newest)] if newest.minor != OWN else []


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make dist` leaves it, with a few of the kernels."""
    folder = new_folder(tmp_path_factory.mktemp("dist"))
    made = build(folder, [], EPOCH, [*own_kernels(), *newest_kernels()])
    write_sbom(folder, made)
    write_requirements(folder, made)
    return folder


def kernel_in(wheel: Path) -> bytes:
    """The compiled module of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith(".so"))
        return opened.read(name)


def test_there_is_a_wheel_for_everywhere_one_for_here_and_a_source_archive(archives: Path) -> None:
    names = {each.name for each in archives.iterdir()}
    for name in ("moldau", *(f"moldau_{each}" for each in DISTRIBUTIONS)):
        assert any(re.fullmatch(rf"{name}-[\d.]+-py3-none-any\.whl", each) for each in names)
        assert any(re.fullmatch(rf"{name}-[\d.]+\.tar\.gz", each) for each in names)
    for kernel in (*own_kernels(), *newest_kernels()):
        assert any(each.endswith(f"-{kernel.tag}.whl") for each in names)
    assert not list(archives.glob(".*"))


def test_the_wheel_of_moldau_brings_the_man_pages(archives: Path) -> None:
    (wheel,) = archives.glob("moldau-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert any(each.endswith(".data/data/share/man/man1/moldau-topic.1") for each in names)


def test_two_builds_are_equal(archives: Path, tmp_path: Path) -> None:
    again = build(tmp_path, [], EPOCH, own_kernels())

    for each in again:
        assert (archives / each.name).read_bytes() == each.read_bytes(), each.name
    left = {each.name for each in archives.iterdir()} - {each.name for each in again}
    assert len(left) == 2 + len(newest_kernels()), "all but the newest, and what is made of them"


def test_each_kernel_needs_no_more_than_its_tag_says(archives: Path) -> None:
    wheels = [each for each in archives.glob("moldau_platform-*.whl") if "-any" not in each.name]
    assert len(wheels) == 2 + len(newest_kernels())
    for wheel in wheels:
        kernel = kernel_in(wheel)
        machine = next(each for each in MACHINES if wheel.stem.endswith(each))
        assert int.from_bytes(kernel[18:20], "little") == MACHINES[machine], wheel.name
        assert str(archives.parent).encode() not in kernel
        words: list[str | Path] = [sys.executable, "-m", "auditwheel", "show", wheel]
        said = " ".join(subprocess.check_output(words, text=True).split())  # noqa: S603
        if "manylinux" in wheel.name:
            assert f'platform tag: "manylinux_2_17_{machine}"' in said
        else:  # auditwheel judges musl's on a machine with musl; there no symbol has a version
            assert "references no external versioned symbols" in said


@pytest.mark.parametrize(
    ("system", "triplet"),
    [
        (f"{HERE}-manylinux2014", f"{HERE}-linux-gnu"),
        (f"{OTHER}-unknown-linux-musl", f"{OTHER}-linux-musl"),
        (f"{OTHER}-manylinux2014", None),
        ("aarch64-apple-darwin", None),
    ],
)
def test_each_system_gets_its_kernel_or_plain_python(
    system: str, triplet: str | None, archives: Path, tmp_path: Path
) -> None:
    words: list[str | Path] = ["pip", "install", "-q", "--no-deps", "--target", tmp_path]
    words += ["--python-platform", system, "--python-version", ".".join(map(str, OWN))]
    subprocess.run([UV, *words, "-r", archives / NAME], check=True)  # noqa: S603

    found = [each.name for each in (tmp_path / "moldau" / "records").glob("_speed.*.so")]

    assert (tmp_path / "moldau" / "records" / "_pure.py").is_file()
    wanted = [f"_speed.cpython-{OWN[0]}{OWN[1]}-{triplet}.so"] if triplet else []
    assert found == wanted


def test_headers_that_do_not_fit_the_system_stop_the_compiler(tmp_path: Path) -> None:
    include = tmp_path / "python3.11"
    include.mkdir()
    own = own_headers()
    lying = re.sub(r"(SIZEOF_LONG) 8", r"\1 4", own.config.read_text())
    (include / "pyconfig.h").write_text(lying)
    kernel = Kernel(SYSTEMS[0], Headers(include, include / "pyconfig.h", own.minor))
    workshop = tmp_path / "workshop"
    copy_headers(kernel.headers, workshop)
    (workshop / "empty.c").touch()

    with pytest.raises(KernelFailed, match=r"pyconfig\.h: long"):
        compile_kernel(kernel, workshop, Path("empty.c"))


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
    minor = tuple(map(int, json.loads(said)["python"].split(".")[:2]))
    is_compiled = minor in {OWN, *(each.headers.minor for each in newest_kernels())}
    assert json.loads(said)["record-kernel"] == ("compiled" if is_compiled else "pure")
    seconds = starts_within(home, tmp_path, without_a_compiler)
    print(f"the broker answered after {seconds:.1f} s")
    told = f"no compiled kernel for cpython {minor[0]}.{minor[1]} on linux-{HERE}"
    assert (told in (tmp_path / "broker.log").read_text()) is not is_compiled
    if is_compiled:
        agreement: list[str | Path] = [home / "bin" / "python", AGREEMENT]
        subprocess.run(agreement, env=without_a_compiler, check=True, cwd=tmp_path)  # noqa: S603


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
        f"cp3{minor}-{system.name}" for minor in (11, 12, 13, 14) for system in SYSTEMS
    }
