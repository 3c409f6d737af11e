"""`make demo`: every seed has a story with a good end, and it is the same each time."""

from __future__ import annotations

import pytest

from examples.replicated_log.__main__ import main
from examples.replicated_log.story import Story
from moldau.runtime.simulated.simulation import Simulation


def tell(seed: int) -> list[str]:
    lines: list[str] = []
    with Simulation(seed) as world:
        Story(world, lines.append).perform()
        lines.append(world.digest)
    return lines


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_in_the_end(seed: int) -> None:
    lines = tell(seed)
    assert 20 <= len(lines) <= 40
    assert "lost 0" in lines[-2]


def test_a_story_is_told_twice_in_the_same_words() -> None:
    assert tell(7) == tell(7)
    assert tell(7) != tell(8)


def test_the_command_names_seed_trace_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seed", "3"])
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last[0].startswith("seed 3, trace ")
    assert "times as fast as life" in last[1]
