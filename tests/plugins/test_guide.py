"""docs/plugins.md: its package is laid out as it stands there, and every block runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.plugins import Contracts, installed_plugins
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, text_of

GUIDE = "plugins.md"
ADDRESS = "localhost:9092"
MAIN = "import sys; from moldau.cli import main; sys.exit(main())"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(GUIDE), re.DOTALL)


def files() -> dict[str, str]:
    """The blocks of Python by the path in their first line."""
    return {each.split("\n", 1)[0].removeprefix("# "): each for each in programs(GUIDE)}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of the guide, as an installation leaves it."""
    for path, text in files().items():
        target = tmp_path / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    (project,) = blocks("toml")
    described = tomllib.loads(project)["project"]
    metadata = tmp_path / "shop_tools-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {described['name']}\nVersion: {described['version']}\n"
    )
    lines = [
        line
        for group, points in described["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(package), *(each for each in sys.path if each)])
    return subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def commands() -> Iterator[tuple[list[str], str]]:
    """Each command, and what it prints."""
    for block in blocks("console"):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, _, told = part.strip().partition("\n")
            yield command.split()[1:], told


def test_the_guide_names_every_group_that_has_a_contract() -> None:
    contracts = Contracts(installed_plugins())
    assert contracts.faults == ()
    for group in contracts.by_group:
        assert f"| `{group}` |" in text_of(GUIDE)


@pytest.mark.real
def test_the_guides_commands_print_what_it_says(package: Path) -> None:
    ran = 0
    for words, told in commands():
        done = run(package, "-c", MAIN, *words)
        if told != "...":
            assert (done.stdout + done.stderr).strip() == told
        elif words[-1] == "--check":
            assert (done.returncode, done.stderr) == (0, "")
            assert "brought by shop-tools" in done.stdout
            assert "shop_tools.assignor:FirstCome" in done.stdout
        else:
            assert done.returncode == 0, done.stderr
        ran += 1
    assert ran == 4


@pytest.mark.real
def test_the_guides_serde_and_assignor_are_used_by_their_names(
    package: Path, moldau_broker: SyncEmbeddedBroker
) -> None:
    uses = [path for path in files() if path.startswith("use_")]
    assert len(uses) == 2
    for path in uses:
        program = (package / path).read_text()
        (package / path).write_text(program.replace(ADDRESS, moldau_broker.bootstrap_servers))
        done = run(package, str(package / path))
        assert (done.returncode, done.stdout) == (0, "three of them\n"), done.stderr
