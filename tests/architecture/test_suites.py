"""What a suite chooses nothing of is not even read."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests import suites
from tests.architecture.sources import ROOT, python

QUICK, SPARK, OTHERS = (
    "not deep and not slow",
    "(deep) and spark",
    "(deep and not hunt and not soak) and not spark",
)


@pytest.mark.parametrize(
    ("path", "left_out_by"),
    [
        ("tests/spark/test_rows.py", {QUICK, OTHERS}),
        ("tests/spark/", {QUICK, OTHERS}),
        ("tests/connectors/", {}),
        ("tests/connectors/jdbc/", {SPARK}),
        ("tests/conformance/test_kcat.py", {QUICK, SPARK}),
        ("tests/conformance/test_clients.py", {SPARK}),
        ("tests/examples/test_shop_demo.py", {QUICK, OTHERS}),
        ("tests/ids/test_ids.py", {SPARK, OTHERS}),
        ("tests/architecture/test_again.py", {QUICK, SPARK, OTHERS}),
        ("tests/", {}),
    ],
)
def test_files_without_a_chosen_test_are_left_out(path: str, left_out_by: set[str]) -> None:
    found = {each for each in (QUICK, SPARK, OTHERS) if suites.is_left_out(path, each)}

    assert found == set(left_out_by)


def test_the_cases_of_a_file_take_turns_and_whole_files_are_left_out(tmp_path: Path) -> None:
    tests = [f"tests/test_a.py::test_b[{number}]" for number in range(30)]
    ran: list[str] = []
    for turn in range(suites.TURNS):
        path = tmp_path / f"{turn}.json"
        suites.LeftOut(frozenset({"tests/test_c.py"}), frozenset({"tests/test_a.py"}), turn).write(
            path
        )
        without = suites.left_out(path)
        of_turn = [each for each in tests if not without.has(each)]
        assert 0 < len(of_turn) < len(tests)
        ran += of_turn
        assert without.has("tests/test_c.py::test_b")
        assert not without.has("tests/test_d.py::test_b")

    assert sorted(ran) == sorted(tests)


@pytest.mark.parametrize("expression", ["", "deep", "spark", "not spark"])
def test_other_expressions_leave_nothing_out(expression: str) -> None:
    assert not any(suites.is_left_out(each.path, expression) for each in python())


def test_the_first_seeds_are_of_both_suites() -> None:
    marks = [list(each.marks) for each in suites.seeds(range(3), quick=1)]

    more = [pytest.mark.deep, pytest.mark.soak]
    assert marks == [[], more, more]


def test_each_seed_that_takes_turns_is_quick_on_one_day_of_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = []
    for number in range(20_000, 20_003):
        monkeypatch.setattr(suites, "today", lambda number=number: number)
        made = suites.seeds(range(9), quick=1, turns=6)
        days.append({each.values[0] for each in made if not each.marks})

    assert {0} == days[0] & days[1] == days[1] & days[2] == days[0] & days[2]
    assert set().union(*days) == set(range(7)), "the last two never take a turn"
    assert {len(each) for each in days} == {3}


def test_a_deep_test_in_a_file_that_does_not_look_so_is_refused(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "is_deep", lambda item: True)
    monkeypatch.setattr(suites, "may_be_deep", lambda file: not file.endswith("test_suites.py"))

    with pytest.raises(pytest.UsageError, match=r"test_suites.py.*tests/suites.py"):
        suites.mark([request.node])


def test_the_fast_part_leaves_out_the_long_files_alone() -> None:
    fast = f"{QUICK} and not long"
    read = {each.path for each in python() if each.path.rpartition("/")[2].startswith("test_")}
    left_out = {path for path in read if suites.is_left_out(path, fast)}

    deep = {path for path in read if suites.is_left_out(path, QUICK)}
    assert left_out - deep == suites.long_files()
    assert len(suites.long_files()) < len(read) / 4, "most files are quick"


def test_a_part_runs_on_the_newest_python_in_each_run_of_ci() -> None:
    text = (ROOT / ".ci/run").read_text(encoding="ascii")
    (call,) = re.findall(r'make test-newest NEWEST="(.*)" \\\n  ARGS="(.*)"', text)

    assert suites.is_left_out(sorted(suites.long_files())[0], call[0])
    assert all((ROOT / folder).is_dir() for folder in call[1].split())


def test_properties_are_not_judged_by_the_clock() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


@pytest.mark.parametrize("has_workers", [True, False])
def test_a_process_that_leads_workers_goes_on_to_collect_garbage(
    request: pytest.FixtureRequest, *, has_workers: bool
) -> None:
    """No collection of tests ends in it, which would turn that on again."""
    path = str(ROOT / "tests" / "conftest.py")
    plugins = request.config.pluginmanager.get_plugins()
    (ours,) = (each for each in plugins if getattr(each, "__file__", None) == path)
    workers = {"dsession"} if has_workers else set[str]()
    manager = SimpleNamespace(has_plugin=workers.__contains__)
    assert gc.isenabled()
    try:
        ours.pytest_collection(SimpleNamespace(config=SimpleNamespace(pluginmanager=manager)))
        assert gc.isenabled() is has_workers
    finally:
        gc.enable()
