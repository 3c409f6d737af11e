"""Deep tests that the change reaches run, and all others within three days."""

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
    HELPS_MANY,
    HOUSE,
    LONG_S,
    REASONS,
    Budget,
    Closeness,
    DeepFile,
    Ranks,
    choice_for,
    choose,
    cpu_s,
    deep_files,
    report,
    third,
)
from tests.rooms import FEW_ROOMS

BUDGET = Budget(20 * 60, cores=2)
NO_TIME = Budget(0, cores=2)
CONNECT = "connect/moldau/connect/worker"


def paths(files: Iterable[DeepFile]) -> set[str]:
    return {each.path for each in files}


closenesses = st.lists(st.tuples(st.sampled_from(Closeness), st.floats(1, 300)))


@given(closenesses, st.integers(0, 30_000), st.integers(0, 3_000), st.sampled_from(Closeness))
def test_what_is_close_runs_and_the_others_fill_the_budget(
    drawn: list[tuple[Closeness, float]], day: int, seconds: int, always: Closeness
) -> None:
    files = [DeepFile(f"tests/test_{number}.py", taken) for number, (_, taken) in enumerate(drawn)]
    closeness = {each.path: drawn[number][0] for number, each in enumerate(files)}
    budget = Budget(seconds, cores=2)
    days = [choose(files, closeness, always, day + more, budget) for more in range(3)]

    close = {path for path, rank in closeness.items() if rank <= always}
    of_days = set[str]()
    for choice in days:
        chosen = {*paths(choice.whole), *paths(choice.in_turns)}
        assert sorted([*chosen, *paths(choice.left_out)]) == sorted(closeness)
        assert close <= paths(choice.whole)
        assert all(each.cpu_s > LONG_S for each in choice.in_turns)
        filled = {each for each in choice.whole if closeness[each.path] > always}
        if filled - {*choice.of_day}:
            assert budget.wall_s(choice.cpu_s) <= seconds + 1e-6
        of_days |= chosen
    assert of_days == set(closeness)


def test_the_closest_fill_the_budget_first_and_of_those_the_shortest() -> None:
    of_another_day = [
        name for name in map("tests/test_{}.py".format, range(50)) if third(name) == 2
    ]
    files = [
        DeepFile(name, seconds) for name, seconds in zip(of_another_day, (9, 8, 4, 1), strict=False)
    ]
    ranks = [Closeness.ROOM, Closeness.IMPORT, Closeness.IMPORT, Closeness.NOTHING]
    closeness = {each.path: rank for each, rank in zip(files, ranks, strict=True)}

    choice = choose(files, closeness, Closeness.HELPER, 0, Budget(15, 1))

    assert choice.close == {Closeness.ROOM: (files[0],), Closeness.IMPORT: (files[2],)}
    assert choice.left_out == (files[1], files[3])


def test_a_long_file_of_the_day_takes_turns_unless_the_change_reaches_it() -> None:
    files = [
        DeepFile(f"tests/test_{number}.py", 2 * LONG_S)
        for number in range(20)
        if third(f"tests/test_{number}.py") == 0
    ]
    ranks = {each.path: Closeness.NOTHING for each in files} | {files[0].path: Closeness.ROOM}

    far = choose(files, ranks, Closeness.HELPER, 0, NO_TIME)
    near = choose(files, ranks, Closeness.HELPER, 0, BUDGET)

    assert far.in_turns == tuple(sorted(files, key=lambda each: (ranks[each.path], each.path)))
    assert near.close == {Closeness.ROOM: (files[0],)}
    assert files[0] not in near.in_turns


def of_days() -> list[tuple[DeepFile, ...]]:
    """What each of three days runs of a change that reaches nothing."""
    files = deep_files()
    closeness = {each.path: Closeness.NOTHING for each in files}
    days = (20_000, 20_001, 20_002)
    chosen = [choose(files, closeness, Closeness.ROOM, day, BUDGET) for day in days]
    return [(*each.whole, *each.in_turns) for each in chosen]


def test_every_deep_file_runs_when_it_changed_whatever_it_takes() -> None:
    all_files = paths(deep_files())

    choice = choice_for(frozenset(all_files), 0, NO_TIME)

    assert paths(choice.close[Closeness.FILE]) == all_files


def test_three_days_run_all_and_each_about_a_third_of_the_time() -> None:
    days = of_days()

    assert sorted(each.path for files in days for each in files) == sorted(paths(deep_files()))
    whole = cpu_s(deep_files())
    assert all(whole / 4 < cpu_s(files) < whole / 2.4 for files in days)


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
def test_a_planted_change_in_a_room_runs_its_deep_tests_over_the_budget_too(
    planted: str, room: str
) -> None:
    expected = {each.path for each in deep_files() if each.path.startswith(room)}

    choice = choice_for(frozenset({planted}), 0, NO_TIME)

    assert expected
    assert expected <= set().union(*map(paths, choice.close.values()))


def test_a_change_of_many_rooms_fills_the_budget_by_them() -> None:
    rooms = ("client/group", "client/consumer", "client/serdes", "cli", "records")
    change = frozenset(f"platform/moldau/{room}/planted.py" for room in rooms)

    assert len(change) > FEW_ROOMS
    choice = choice_for(change, 0, BUDGET)
    assert min(choice.close) == Closeness.ROOM
    assert BUDGET.wall_s(choice.cpu_s) <= BUDGET.seconds


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
    assert any("left out" in each for each in lines)
    assert len(lines) < 10


def test_continuous_integration_gives_deep_tests_a_budget() -> None:
    text = (ROOT / ".ci/run").read_text(encoding="ascii")

    assert re.search(r"make test-deep .* MINUTES=\d+$", text, re.MULTILINE)


def test_the_list_of_what_is_left_out_is_no_folder_to_pytest() -> None:
    """As a word of its own it would be one, and the options of tests/conftest.py were unknown."""
    assert "--left-out=$(LEFT_OUT)" in (ROOT / "Makefile").read_text(encoding="utf-8")
