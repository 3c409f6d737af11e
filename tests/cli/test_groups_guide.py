"""docs/groups.md: every command in it, in order, on a fresh broker; it prints what the guide says.

`...` stands for what differs from run to run; what no output is shown of may print anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

GUIDE = Path(__file__).parents[2] / "docs" / "groups.md"
_PIPED = re.compile(r"printf '(?P<text>[^']*)' \| (?P<command>.*)")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command, and the lines that it prints."""
    text = GUIDE.read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *lines = part.strip().splitlines()
            yield command, lines


def is_like(told: str, shown: str) -> bool:
    pattern = ".*".join(map(re.escape, shown.split("...")))
    return re.fullmatch(pattern, told) is not None


def test_the_guide_shows_commands_and_what_they_print() -> None:
    assert len([lines for _, lines in commands() if lines]) >= 10
    assert is_like("a 1 c", "a ... c")
    assert not is_like("a 1 d", "a ... c")


@pytest.mark.real
def test_the_guides_commands_print_what_it_says() -> None:
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        for command, shown in commands():
            piped = _PIPED.fullmatch(command)
            source = "" if piped is None else piped["text"].replace("\\n", "\n")
            words = shlex.split(command if piped is None else piped["command"])
            assert words[0] == "moldau"
            done = shell(*words[1:], source=source)
            assert done.code == 0, (command, done)
            told = done.out.splitlines()
            if shown:
                assert len(told) == len(shown), (command, done)
                assert all(map(is_like, told, shown)), (command, done)
