"""The scripts, played to our own group: every line of every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.coordinator.classic.peer import OurPeer
from tests.broker.coordinator.classic.script import SCRIPTS, parse, play

FILES = sorted(SCRIPTS.rglob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_script(path: Path, rewrites: bool) -> None:
    text = path.read_text(encoding="ascii")
    played = play(text, OurPeer()).text
    if rewrites:
        path.write_text(played, encoding="ascii")
    else:
        assert played == text


def test_a_wrong_answer_is_seen() -> None:
    text = (SCRIPTS / "first_generation.txt").read_text(encoding="ascii")
    wrong = text.replace("MEMBER_ID_REQUIRED", "NONE")
    assert wrong != text
    assert play(wrong, OurPeer()).text != wrong


def test_scripts_are_written_as_they_are_read() -> None:
    for path in FILES:
        text = path.read_text(encoding="ascii")
        assert "\n".join(block.text() for block in parse(text)) == text, path.name
