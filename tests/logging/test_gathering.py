"""Lines that others cause: the first are written, the others counted and told once a period."""

from __future__ import annotations

from moldau.logging import Logger, Loggers
from moldau.logging.gathering import EVENTS_MAX, SOURCES_MAX, GatheredWarnings, PeerWarnings
from moldau.runtime.simulated import Options, Simulation


def logger(lines: list[str]) -> Logger:
    with Simulation(1, Options()) as world:
        clock = world.add_node("n", None, start=False).clock  # type: ignore[arg-type]
        return Loggers(clock, lines.append).get("log")


def gathering(lines: list[str]) -> GatheredWarnings:
    return GatheredWarnings(logger(lines), lines=2, period_s=10)


def test_a_million_of_the_same_are_three_lines() -> None:
    lines: list[str] = []
    gathered = gathering(lines)
    for number in range(1000):
        gathered.warn("closes connection", 5.0 + number / 1000, peer=number)
    assert len(lines) == 2
    gathered.tick(14.9)
    assert len(lines) == 2
    gathered.tick(15.0)
    assert len(lines) == 3
    assert "closes connection (more of the same)" in lines[2]
    assert "count=998" in lines[2]
    assert "seconds=10" in lines[2]


def test_a_new_period_writes_again_and_other_events_have_their_own() -> None:
    lines: list[str] = []
    gathered = gathering(lines)
    for _ in range(3):
        gathered.warn("one", 0.0)
        gathered.warn("two", 0.0)
    assert len(lines) == 4
    gathered.warn("one", 20.0)
    assert len(lines) == 7, "what was counted of both, and the new line"
    gathered.close(20.0)
    assert len(lines) == 7


def test_the_number_of_events_is_bounded() -> None:
    lines: list[str] = []
    gathered = gathering(lines)
    for number in range(10 * EVENTS_MAX):
        gathered.warn(f"event {number}", 0.0)
    assert len(gathered._seen) == EVENTS_MAX


def test_refusals_of_one_source_hide_none_of_another() -> None:
    lines: list[str] = []
    gathering = PeerWarnings(logger(lines))
    for number in range(1000):
        gathering.warn("login failed", "10.0.0.1", 0.0, user=f"u{number}")
    gathering.warn("login failed", "10.0.0.2", 0.1, user="other")
    gathering.warn("login failed", "10.0.0.1", 0.9, user="too soon")
    assert len(lines) == 2
    assert "user=other" in lines[1]
    gathering.warn("login failed", "10.0.0.1", 1.0, user="again")
    assert "user=again unwritten_before=1000" in lines[2]


def test_many_sources_fill_no_disk_and_no_memory() -> None:
    lines: list[str] = []
    gathering = PeerWarnings(logger(lines))
    for number in range(100_000):
        gathering.warn("login failed", str(number), number / 100_000)
    assert len(lines) == SOURCES_MAX
    assert len(gathering._unwritten) <= EVENTS_MAX
