"""Each script, played to our group: see `script`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.coordinator.consumer.ours import Ours
from tests.broker.coordinator.consumer.script import SCRIPTS, play

ALL = sorted(SCRIPTS.rglob("*.txt"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_members_hear_what_the_script_says(path: Path, rewrites: bool) -> None:
    text = path.read_text(encoding="utf-8")
    played = play(text, Ours())
    if rewrites:
        path.write_text(played, encoding="utf-8")
    else:
        assert played == text
