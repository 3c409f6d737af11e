"""What the change reaches runs while the minutes last, and all others on their days."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.architecture.sources import ROOT, python
from tests.imports import Imports, imports_of_this_house, reads
from tests.reach import (
    DAYS,
    HELPS_MANY,
    HOUSE,
    LONG_S,
    NEW_S,
    QUICK_S,
    REASONS,
    Budget,
    Choice,
    Closeness,
    DeepFile,
    Ranks,
    choice_for,
    choose,
    day_of,
    deep_files,
    report,
    unmeasured_s,
)

BUDGET = Budget(20 * 60, cores=2)
NO_TIME = Budget(0, cores=2)
CONNECT = "connect/moldau/connect/worker"


def paths(files: Iterable[DeepFile]) -> set[str]:
    return {each.path for each in files}


def day_part_s(choice: Choice) -> float:
    """What the files of the day take on the clock."""
    return sum(BUDGET.wall_s(each, each.first_share) for each in choice_files(choice))


def choice_files(choice: Choice) -> list[DeepFile]:
    return [each.file for each in choice.rows]


def of_another_day(count: int) -> list[str]:
    """Names of files whose day is not that of number 0."""
    names = (f"tests/test_{number}.py" for number in range(100))
    return [each for each in names if day_of(each) != 0][:count]


closenesses = st.lists(st.tuples(st.sampled_from(Closeness), st.floats(1, 300)), max_size=60)


@given(closenesses, st.integers(0, 30_000), st.integers(0, 3_000))
def test_the_files_of_the_day_run_and_the_closest_fill_the_minutes(
    drawn: list[tuple[Closeness, float]], day: int, seconds: int
) -> None:
    files = [DeepFile(f"tests/test_{number}.py", taken) for number, (_, taken) in enumerate(drawn)]
    closeness = {each.path: drawn[number][0] for number, each in enumerate(files)}
    budget = Budget(seconds, cores=2)
    days = [choose(files, closeness, day + more, budget) for more in range(DAYS)]

    of_days = set[str]()
    for number, choice in enumerate(days):
        chosen = paths(choice_files(choice))
        assert sorted([*chosen, *paths(choice.left_out)]) == sorted(closeness)
        assert all(each.cpu_s > LONG_S for each in choice.in_turns)
        of_day = {each for each in files if day_of(each.path) == (day + number) % DAYS}
        assert of_day <= {*choice_files(choice)}
        if {*choice_files(choice)} != of_day:
            assert choice.seconds(budget) <= seconds + 1e-6
        of_days |= chosen
    assert of_days == set(closeness)


@given(closenesses, st.integers(0, 3_000))
def test_no_file_waits_for_one_that_is_less_close_and_takes_as_long(
    drawn: list[tuple[Closeness, float]], seconds: int
) -> None:
    names = of_another_day(len(drawn))
    files = [DeepFile(name, taken) for name, (_, taken) in zip(names, drawn, strict=True)]
    closeness = {name: rank for name, (rank, _) in zip(names, drawn, strict=True)}

    choice = choose(files, closeness, 0, Budget(seconds, cores=2))

    for out in choice.left_out:
        others = [each.file for each in choice.rows if each.closeness is not None]
        assert not [
            each
            for each in others
            if closeness[each.path] > closeness[out.path]
            and each.cpu_s * each.first_share >= out.cpu_s * out.first_share
        ]


def test_the_closest_fill_the_minutes_first_and_of_those_the_shortest() -> None:
    files = [
        DeepFile(name, seconds)
        for name, seconds in zip(of_another_day(4), (9, 8, 4, 1), strict=True)
    ]
    ranks = [Closeness.ROOM, Closeness.IMPORT, Closeness.IMPORT, Closeness.NOTHING]
    closeness = {each.path: rank for each, rank in zip(files, ranks, strict=True)}
    start_s = NO_TIME.seconds - NO_TIME.left_s

    choice = choose(files, closeness, 0, Budget(start_s + 15, 1))

    assert [(each.file, each.closeness) for each in choice.rows] == [
        (files[0], Closeness.ROOM),
        (files[2], Closeness.IMPORT),
    ]
    assert choice.left_out == (files[1], files[3])


def test_a_long_file_of_the_day_takes_turns_unless_the_change_reaches_it() -> None:
    files = [
        DeepFile(f"tests/test_{number}.py", 2 * LONG_S)
        for number in range(20)
        if day_of(f"tests/test_{number}.py") == 0
    ]
    ranks = {each.path: Closeness.NOTHING for each in files} | {files[0].path: Closeness.ROOM}

    far = choose(files, ranks, 0, NO_TIME)
    near = choose(files, ranks, 0, BUDGET)

    assert paths(far.in_turns) == paths(files)
    assert near.whole == (files[0],)
    assert paths(near.in_turns) == paths(files[1:])


def test_all_long_files_that_are_as_close_have_a_turn_before_one_runs_whole() -> None:
    files = [DeepFile(name, 3 * LONG_S) for name in of_another_day(3)]
    closeness = {each.path: Closeness.FILE for each in files}
    start_s = NO_TIME.seconds - NO_TIME.left_s
    minutes = Budget(start_s + 1.01 * sum(BUDGET.wall_s(each, 1 / 3) for each in files), cores=2)
    more = Budget(minutes.seconds + 1.01 * BUDGET.wall_s(files[0], 2 / 3), cores=2)

    assert paths(choose(files, closeness, 0, minutes).in_turns) == paths(files)
    assert len(choose(files, closeness, 0, more).whole) == 1
    assert len(choose(files, closeness, 0, more).in_turns) == 2


def test_sparks_part_has_a_pace_of_its_own() -> None:
    ours, sparks = DeepFile("tests/cli/test_a.py", 30), DeepFile("tests/spark/test_a.py", 30)

    assert BUDGET.wall_s(sparks) > BUDGET.wall_s(ours)


def test_a_file_that_no_run_has_measured_is_not_free() -> None:
    assert unmeasured_s("tests/spark/test_planted.py") == NEW_S
    assert unmeasured_s("tests/ids/test_planted.py") == QUICK_S


def of_days() -> list[Choice]:
    """What each day runs of a change that reaches nothing."""
    files = deep_files()
    closeness = {each.path: Closeness.NOTHING for each in files}
    return [choose(files, closeness, 20_000 + number, BUDGET) for number in range(DAYS)]


def test_all_days_run_all_and_leave_half_of_the_minutes_to_the_change() -> None:
    days = of_days()

    chosen = sorted(each.path for choice in days for each in choice_files(choice))
    assert chosen == sorted(paths(deep_files()))
    assert all(day_part_s(each) <= BUDGET.left_s / 2 for each in days)


def test_whatever_changed_continuous_integration_keeps_its_minutes() -> None:
    everything = frozenset([*paths(deep_files()), *HOUSE])

    for number in range(DAYS):
        choice = choice_for(everything, number, BUDGET)
        assert choice.seconds(BUDGET) <= BUDGET.seconds
        assert choice.left_out, "without a budget all would run"


def test_files_that_changed_run_before_all_others() -> None:
    """One of sixteen and a helper of all."""
    some = frozenset(sorted(paths(deep_files()))[::16])

    choice = choice_for(some | {"tests/conftest.py"}, 0, BUDGET)

    assert some <= paths(choice_files(choice))


@pytest.mark.parametrize(
    ("planted", "room"),
    [
        (f"{CONNECT}/planted.py", "tests/connect/worker/"),
        ("streams/moldau/streams/spark/planted.py", "tests/streams/spark/"),
        ("broker/moldau/broker/log/planted.py", "tests/broker/log/"),
        ("connectors/moldau/connectors/spark/checkpoint/planted.py", "tests/connectors/spark/ch"),
        ("examples/shop/planted.html", "tests/examples/"),
        # Rooms without deep tests of their own belong to the one around them.
        ("streams/moldau/streams/plan/planted.py", "tests/streams/real/"),
        ("connectors/moldau/spark/planted.py", "tests/spark/"),
    ],
)
def test_a_planted_change_in_a_room_runs_its_deep_tests(planted: str, room: str) -> None:
    """They fit; of a long one at least a part of the cases."""
    expected = {each.path for each in deep_files() if each.path.startswith(room)}

    choice = choice_for(frozenset({planted}), 0, BUDGET)

    assert expected
    assert expected <= paths(choice_files(choice))


def test_a_change_that_is_not_known_runs_all() -> None:
    assert choice_for(None, 0, NO_TIME).left_out == ()


def test_ranks_by_the_way_from_the_change_to_the_test() -> None:
    test = "tests/connect/worker/test_a.py"
    imported: dict[str, set[str]] = {
        test: {"tests/connect/helper.py", "connect/moldau/connect/api/__init__.py"},
        "tests/connect/helper.py": {"tests/far.py"},
        "tests/far.py": {"platform/moldau/ids/ids.py"},
        "tests/conftest.py": set(),
        "tests/many.py": set(),
        "connect/moldau/connect/api/__init__.py": {"connect/moldau/connect/api/task.py"},
        "connect/moldau/connect/api/task.py": {"platform/moldau/client/far.py"},
        f"{CONNECT}/worker.py": {"connect/moldau/connect/herder/herder.py"},
        f"{CONNECT}/pages/page.py": set(),
        "connect/moldau/connect/herder/herder.py": set(),
        "streams/moldau/streams/app/app.py": set(),
        "broker/moldau/broker/main/main.py": {"broker/moldau/broker/log/log.py"},
        "broker/moldau/broker/log/log.py": set(),
    }
    others = [f"tests/connect/test_{number}.py" for number in range(HELPS_MANY)]
    for other in (test, *others):
        imported[other] = imported.get(other, set()) | {"tests/many.py"}
    imports = Imports(imported, {"tests/far.py": {"tests/connect/rows.json"}})
    expected = {
        test: Closeness.FILE,
        "tests/far.py": Closeness.HELPER,
        "tests/connect/rows.json": Closeness.HELPER,
        f"{CONNECT}/worker.py": Closeness.ROOM,
        f"{CONNECT}/pages/page.py": Closeness.ROOM,
        "connect/moldau/connect/api/task.py": Closeness.IMPORT,
        "platform/moldau/ids/ids.py": Closeness.IMPORT,
        "platform/moldau/client/far.py": Closeness.PART,
        "connect/moldau/connect/herder/herder.py": Closeness.PART,
        "broker/moldau/broker/log/log.py": Closeness.PART,
        "tests/many.py": Closeness.PART,
        "tests/conftest.py": Closeness.PART,
        **dict.fromkeys(HOUSE, Closeness.PART),
        "streams/moldau/streams/app/app.py": Closeness.NOTHING,
        "docs/client.md": Closeness.NOTHING,
    }

    found = {
        each: Ranks(frozenset({each}), imports, [test, *others]).closeness(test)
        for each in expected
    }

    assert found == expected


@pytest.mark.parametrize(
    ("text", "other", "is_read"),
    [
        ('ROOT / "docs" / "spark.md"', "docs/spark.md", True),
        ("nothing", "docs/spark.md", False),
        ('HERE / "scripts"', "tests/broker/scripts/slow.txt", True),
        ('HERE / "scripts"', "tests/connect/scripts/slow.txt", False),
    ],
)
def test_files_that_a_test_reads_are_found_by_name(text: str, other: str, is_read: bool) -> None:
    assert reads("tests/broker/test_a.py", text, PurePosixPath(other)) is is_read


def test_the_imports_of_this_house_are_found() -> None:
    imports = imports_of_this_house([])
    test = "tests/connect/worker/test_workers.py"

    assert "tests/connect/processes.py" in imports.helpers(test)
    assert "platform/moldau/testing/threaded.py" in imports.product({test})
    assert imports.room(test) == CONNECT
    assert {each.path for each in python() if each.path.startswith(CONNECT)} <= imports.started(
        test
    )


def test_the_choice_is_told_in_a_few_lines() -> None:
    change = frozenset({f"{CONNECT}/planted.py"})

    lines = report(choice_for(change, 1, BUDGET), change, 1, BUDGET)

    assert any(REASONS[Closeness.ROOM] in each for each in lines)
    assert any("left to their days" in each for each in lines)
    assert len(lines) < 10


def test_continuous_integration_gives_deep_tests_a_budget() -> None:
    text = (ROOT / ".ci/run").read_text(encoding="ascii")

    assert re.search(r"make test-deep .* MINUTES=\d+$", text, re.MULTILINE)


def test_the_list_of_what_is_left_out_is_no_folder_to_pytest() -> None:
    """As a word of its own it would be one, and the options of tests/conftest.py were unknown."""
    assert "--left-out=$(LEFT_OUT)" in (ROOT / "Makefile").read_text(encoding="utf-8")
