"""The harness interleaves, takes medians, and tells a met goal from a missed one."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.harness import (
    Case,
    Goal,
    Measured,
    Missing,
    Table,
    fitting,
    human,
    machine_line,
    measure,
    rate,
    report,
    seconds,
    told,
)


def series(*values: float) -> Callable[[], float]:
    """A case that returns the given values, one a round."""
    remaining: Iterator[float] = iter(values)
    return lambda: next(remaining)


def measured(goals: list[Goal], **values: list[float]) -> Measured:
    table = Table("T", "records/s", [Case(name, lambda: 0.0) for name in values], goals)
    return Measured(table, values)


class FakeClock:
    """Time moves only when work says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def advance(self, by: float) -> None:
        self.now += by


def test_rounds_are_interleaved_and_each_starts_with_another_case() -> None:
    ran: list[str] = []

    def case(name: str) -> Case:
        def run() -> float:
            ran.append(name)
            return 1.0

        return Case(name, run)

    measure(Table("T", "x", [case("a"), case("b"), case("c")]), rounds=3, warm_up=0)

    assert ran == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_warm_up_rounds_are_not_measured() -> None:
    table = Table("T", "x", [Case("a", series(1000.0, 2000.0, 5.0, 6.0))])

    assert measure(table, rounds=2, warm_up=2).values["a"] == [5.0, 6.0]


def test_the_median_ignores_one_bad_round_and_the_spread_shows_it() -> None:
    result = measured([], a=[10.0, 10.0, 100.0, 10.0, 10.0])

    assert result.median("a") == 10.0
    assert result.spread("a") == 9.0


def test_no_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        measure(Table("T", "x", [Case("a", series(1.0))]), rounds=0)


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("ours", "peer", ratio_at_least=2.0), True),
        (Goal("ours", "peer", ratio_at_least=2.1), False),
        (Goal("ours", "peer", ratio_at_most=2.0), True),
        (Goal("ours", "peer", ratio_at_most=1.9), False),
        (Goal("ours", at_least=20.0), True),
        (Goal("ours", at_least=20.5), False),
        (Goal("ours", at_most=20.0), True),
        (Goal("ours", at_most=19.5), False),
        (Goal("ours", "peer", ratio_at_least=1.0, at_most=5.0), False),
    ],
)
def test_goals_hold_on_the_bound_and_not_beyond_it(goal: Goal, met: bool) -> None:
    result = measured([goal], peer=[10.0], ours=[20.0])

    assert result.is_met is met
    assert result.verdicts, "a goal always leads to a verdict"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Goal("a"),
        lambda: Goal("a", "b"),
        lambda: Goal("a", ratio_at_least=1.0),
        lambda: Goal("a", "b", at_least=1.0),
        lambda: Table("T", "x", []),
        lambda: Table("T", "x", [Case("a", series()), Case("a", series())]),
        lambda: Table("T", "x", [Case("a", series())], [Goal("b", at_least=1.0)]),
        lambda: Table("T", "x", [Case("a", series())], [Goal("a", "b", ratio_at_least=1.0)]),
    ],
)
def test_a_goal_or_table_that_could_not_be_judged_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"goal|table"):
        make()


def test_rate_and_seconds_read_the_clock_around_the_work() -> None:
    clock = FakeClock()

    def work() -> None:
        clock.advance(0.5)

    assert rate(work, 1000, clock=clock)() == pytest.approx(2000.0)
    assert seconds(work, clock=clock)() == pytest.approx(0.5)
    assert seconds(work, 10, clock=clock)() == pytest.approx(0.05)


def test_the_report_shows_median_spread_ratio_goals_notes_machine_and_command() -> None:
    table = Table(
        "Encode",
        "records/s",
        [Case("peer", series()), Case("ours", series())],
        [Goal("ours", "peer", ratio_at_least=2.0), Goal("ours", at_least=1e9)],
        notes=["500 records a batch"],
    )
    page = report(
        "records",
        [Measured(table, {"peer": [10e6, 10e6, 11e6], "ours": [25e6, 25e6, 25e6]})],
        command="python -m bench records",
        machine="a machine",
        reasons={"Encode": "The disk is full."},
    )

    assert page == (
        "# records\n"
        "\n"
        "- machine: a machine\n"
        "- command: `python -m bench records`\n"
        "\n"
        "## Encode\n"
        "\n"
        "records/s, higher is better; median of 3 interleaved rounds.\n"
        "\n"
        "| case | median | spread | / peer |\n"
        "|-|-:|-:|-:|\n"
        "| peer | 10,000,000 | 10% | 1.00 |\n"
        "| ours | 25,000,000 | 0% | 2.50 |\n"
        "\n"
        "- met: `ours` / `peer` = 2.5, goal >= 2\n"
        "- MISSED: `ours` = 25,000,000, goal >= 1,000,000,000\n"
        "  The disk is full.\n"
        "- 500 records a batch\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (25_310_000.0, "25,310,000"),
        (25_312_345.0, "25,310,000"),
        (999.0, "999"),
        (999.96, "1,000"),
        (1406.2, "1,406"),
        (23.514, "23.51"),
        (0.5971, "0.597"),
        (0.99996, "1"),
        (0.08, "0.08"),
        (0.0000041, "0.0000041"),
        (-0.5, "-0.5"),
    ],
)
def test_numbers_are_as_people_read_them(value: float, text: str) -> None:
    assert human(value) == text


@pytest.mark.parametrize(
    ("unit", "largest", "expected"),
    [
        ("seconds", 0.0002, ("us", 1e6)),
        ("seconds", 0.009, ("ms", 1e3)),
        ("seconds a GB of values", 0.3, ("seconds a GB of values", 1.0)),
        ("bytes of values a second", 4e8, ("MB of values a second", 1e-6)),
        ("resident bytes each", 3_600.0, ("resident bytes each", 1.0)),
        ("resident bytes", 49_000.0, ("resident kB", 1e-3)),
        ("MB/s", 46.0, ("MB/s", 1.0)),
    ],
)
def test_a_table_has_the_unit_that_fits_its_largest_number(
    unit: str, largest: float, expected: tuple[str, float]
) -> None:
    assert fitting(unit, largest) == expected


def test_values_and_their_goals_are_in_the_unit_of_the_table() -> None:
    table = Table("T", "seconds", [Case("ours", series())], [Goal("ours", at_most=0.0005)])
    page = report("a", [Measured(table, {"ours": [0.0002]})], command="c", machine="m")
    assert "us, lower is better" not in page, "the table says that higher is better"
    assert "us, higher is better" in page
    assert "| ours | 200 | 0% | 1.00 |" in page
    assert "- met: `ours` = 200, goal <= 500" in page


def test_the_machine_line_tells_the_processor_but_not_whose_it_is(tmp_path: Path) -> None:
    cpu_info = tmp_path / "cpuinfo"
    cpu_info.write_text("processor\t: 0\nmodel name\t: Fast CPU 9000 \nflags\t: x\n")

    line = machine_line(cpu_info)

    assert line.startswith("Fast CPU 9000, ")
    assert "cores" in line
    assert "Python" in line
    assert socket.gethostname() not in line
    assert "/" not in line


def test_the_machine_line_needs_no_proc_file_system(tmp_path: Path) -> None:
    assert " cores, " in machine_line(tmp_path / "absent")


def lacking(reason: str) -> Callable[[], float]:
    def run() -> float:
        raise Missing(reason)

    return run


def test_a_missing_case_is_run_once_and_stands_in_the_table_with_its_reason() -> None:
    runs: list[str] = []

    def hangs() -> float:
        runs.append("peer")
        raise Missing("not done after 120 s")

    goals = [Goal("ours", "peer", ratio_at_least=2.0), Goal("ours", at_least=1.0)]
    table = Table("T", "x/s", [Case("ours", lambda: 5.0), Case("peer", hangs)], goals)

    found = measure(table, rounds=3)

    assert runs == ["peer"]
    assert found.is_met
    page = report("area", [found], command="c", machine="m")
    assert "| ours | 5 |" in page
    assert "| peer | missing | - | - |" in page
    assert "- missing: peer: not done after 120 s" in page
    assert "- not judged: `ours` / `peer`" in page
    assert "peer has no value: not done after 120 s" in told(found)


def test_a_goal_on_a_missing_case_is_missed() -> None:
    cases = [Case("ours", lacking("it ended")), Case("peer", lambda: 4.0)]
    found = measure(Table("T", "x/s", cases, [Goal("ours", "peer", ratio_at_least=2.0)]), rounds=1)

    assert not found.is_met
    assert "| peer | 4 | 0% | 1.00 |" in report("area", [found], command="c", machine="m")


def test_a_table_whose_cases_are_all_missing_can_be_told() -> None:
    found = measure(Table("T", "x/s", [Case("ours", lacking("it ended"))]), rounds=1)

    assert "| ours | missing | - | - |" in report("area", [found], command="c", machine="m")
