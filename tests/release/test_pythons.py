"""Headers of Pythons: as they are installed, as Debian has them, and those that do not count."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from release.__main__ import main
from release.kernels import SYSTEMS, Kernel
from release.pythons import Headers, NoHeaders, all_headers, headers_in, missing
from release.retag import with_module

DEFINED = "#define SIZEOF_LONG 8\n"


def headers(folder: Path, minor: int = 12, config: str = DEFINED) -> Path:
    folder.mkdir(parents=True)
    (folder / "Python.h").touch()
    (folder / "pyconfig.h").write_text(config)
    (folder / "patchlevel.h").write_text(
        f"#define PY_MAJOR_VERSION\t3\n#define PY_MINOR_VERSION\t{minor}\n"
    )
    return folder


def test_headers_are_known_by_their_version(tmp_path: Path) -> None:
    folder = headers(tmp_path / "python3.12")

    assert headers_in(folder) == Headers(folder, folder / "pyconfig.h", (3, 12))
    assert headers_in(folder).tag == "cp312"


def test_definitions_of_debian_are_those_of_the_machine(tmp_path: Path) -> None:
    folder = headers(tmp_path / "python3.12", config="#include <x/python3.12/pyconfig.h>\n")
    beside = headers(tmp_path / "x86_64-linux-gnu" / "python3.12")

    assert headers_in(folder).config == beside / "pyconfig.h"


@pytest.mark.parametrize(
    ("minor", "config", "why"),
    [
        (9, DEFINED, "Python 3.9, which is not supported"),
        (15, DEFINED, "Python 3.15, which is not supported"),
        (12, f"{DEFINED}#define Py_DEBUG 1\n", "for debugging"),
        (13, f"{DEFINED}#define Py_GIL_DISABLED 1\n", "without the lock"),
        (12, "", "without definitions"),
    ],
)
def test_headers_that_do_not_count(minor: int, config: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NoHeaders, match=why):
        headers_in(headers(tmp_path / "python", minor, config))


def test_given_headers_count_before_those_of_the_machine(tmp_path: Path) -> None:
    given = headers_in(headers(tmp_path / "given"))
    include = headers(tmp_path / "include")
    python = tmp_path / "bin" / "python3.12"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\ncase "$2" in *get_path*) echo {include};; *) echo 3 12 1;; esac')
    python.chmod(0o755)

    assert all_headers([given], str(python.parent), tmp_path) == {(3, 12): given}
    found = all_headers([], str(python.parent), tmp_path)
    assert found[3, 12].folder == include
    assert missing(found) == ["3.11", "3.13", "3.14"]


def test_a_folder_without_headers_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "dist"), "--headers", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"release: {tmp_path} has no Python.h")


@pytest.mark.parametrize(
    "words", [["--here", "--only", "musllinux_aarch64"], ["--only", "manylinux_riscv64"]]
)
def test_options_that_do_not_go_together(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)


def test_without_zig_no_wheel_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("release.kernels.find_spec", lambda name: None)
    folder = headers(tmp_path / "python3.12")

    assert main(["--out", str(tmp_path / "dist"), "--headers", str(folder)]) == 1
    assert "zig is not installed" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()


def test_a_wheel_for_a_system_is_the_plain_one_with_a_module(tmp_path: Path) -> None:
    plain = tmp_path / "a_b-1.0-py3-none-any.whl"
    with zipfile.ZipFile(plain, "w") as opened:
        opened.writestr("moldau/x.py", "pass\n")
        opened.writestr(
            "a_b-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        opened.writestr("a_b-1.0.dist-info/RECORD", "")
    module = tmp_path / "module.so"
    module.write_bytes(b"ELF")
    kernel = Kernel(SYSTEMS[0], headers_in(headers(tmp_path / "python3.12")))

    made = with_module(plain, kernel.module, module, kernel.tag)

    assert made.name == "a_b-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    first = made.read_bytes()
    assert with_module(plain, kernel.module, module, kernel.tag).read_bytes() == first
    with zipfile.ZipFile(made) as opened:
        name = "moldau/records/_speed.cpython-312-x86_64-linux-gnu.so"
        assert opened.read(name) == b"ELF"
        assert opened.read("moldau/x.py") == b"pass\n"
        tags = opened.read("a_b-1.0.dist-info/WHEEL").decode().splitlines()
        record = opened.read("a_b-1.0.dist-info/RECORD").decode().splitlines()
    assert tags == [
        "Wheel-Version: 1.0",
        "Root-Is-Purelib: false",
        "Tag: cp312-cp312-manylinux_2_17_x86_64",
        "Tag: cp312-cp312-manylinux2014_x86_64",
    ]
    assert [line.split(",")[0] for line in record] == [
        "moldau/x.py",
        "a_b-1.0.dist-info/WHEEL",
        name,
        "a_b-1.0.dist-info/RECORD",
    ]
    assert all(re.fullmatch(r"[^,]+,sha256=[\w-]{43},\d+", line) for line in record[:-1])
