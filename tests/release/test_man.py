"""The man pages: one for each command, which man and groff read without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from moldau.cli.application import GROUP
from moldau.plugins import installed_plugins
from release.build import _copied
from release.man import pages, write
from release.manual import Argument, Manual, Section, manuals

PLANTED = Manual(
    "odd", "An odd one.",
    (Section("moldau odd", "moldau odd [OPTION ...] A|B", ".TH is no request\n'nor is \\this",
             (Argument("--much MUCH", ".5 by default", True), Argument("A|B", "", False))),),
)  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("man"))


def plain(path: Path) -> str:
    """The page as a terminal without colours shows it. Anything that groff warns of fails."""
    done = subprocess.run(  # noqa: S603
        ["groff", "-man", "-ww", "-Tascii", "-P-c", "-P-bou", path],  # noqa: S607
        env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


needs_groff = pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")


def test_each_command_has_a_page(written: list[Path]) -> None:
    names = {path.name for path in written}
    assert names == {"moldau.1", *(f"moldau-{n}.1" for n in installed_plugins().named(GROUP))}


@needs_groff
def test_groff_has_nothing_to_say_about_any_page(written: list[Path], tmp_path: Path) -> None:
    together = tmp_path / "all.1"
    together.write_text("\n".join(path.read_text() for path in written))

    text = plain(together)

    assert "moldau topic create [OPTION ...] TOPIC ..." in text
    assert "--if-not-exists" in text


@needs_groff
def test_a_text_is_never_read_as_a_request(tmp_path: Path) -> None:
    path = tmp_path / "odd.1"
    path.write_text(pages([PLANTED], "1")["moldau-odd.1"])

    text = plain(path)

    for each in (".TH is no request", "'nor is \\this", ".5 by default", "A|B"):
        assert each in text


@pytest.mark.skipif(shutil.which("man") is None, reason="needs man")
def test_man_shows_a_page(written: list[Path]) -> None:
    topic = next(path for path in written if path.name == "moldau-topic.1")
    done = subprocess.run(  # noqa: S603
        ["man", "-l", topic],  # noqa: S607
        env=os.environ | {"LC_ALL": "C", "MANPAGER": "cat"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if "minimized" in done.stdout:
        pytest.skip("this machine's man is a stub")
    assert "moldau topic create" in done.stdout


def test_shared_options_are_told_once() -> None:
    topic = next(each for each in manuals(installed_plugins()) if each.name == "topic")
    page = pages([topic], "1")["moldau-topic.1"]
    assert page.count(r"\-\-command\-config FILE") == 1


def test_the_sources_of_the_wheel_have_the_pages(tmp_path: Path) -> None:
    source = _copied("moldau", tmp_path)
    assert (source / "man" / "moldau-topic.1").is_file()
    settings = tomllib.loads((source / "pyproject.toml").read_text())
    shared = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared["man/moldau-topic.1"] == "share/man/man1/moldau-topic.1"
