"""The quick suite stays quick: what its files take is written down and capped.

`make test ARGS="--write-durations"` renews tests/durations.toml. A file that is over its cap is
split, made faster, or (if it tests the tests, or needs Java) named in tests/suites.py.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from tests import suites
from tests.architecture.sources import ROOT
from tests.suites import is_deep_file

FILE_S_MAX: Final = 60
TOTAL_S_MAX: Final = 1200
"""Ten minutes of two cores."""


def too_slow(files: dict[str, float]) -> dict[str, float]:
    return {file: seconds for file, seconds in files.items() if seconds > FILE_S_MAX}


def test_no_file_takes_long() -> None:
    files = suites.durations()["files"]

    assert len(files) > 50
    assert too_slow(files) == {}


def test_the_whole_takes_minutes() -> None:
    assert 100 < suites.durations()["total"] <= TOTAL_S_MAX


def test_what_is_written_down_is_there_and_not_deep() -> None:
    assert [
        file
        for file in suites.durations()["files"]
        if not (ROOT / file).exists() or is_deep_file(file)
    ] == []


def test_deep_files_that_are_written_down_are_there() -> None:
    deep = suites.durations()[suites.DEEP]

    assert len(deep) > 100
    assert [file for file in deep if not suites.may_be_deep_file(file)] == []


DEEP_FILE, QUICK_FILE = "tests/conformance/test_kcat.py", "tests/ids/test_ids.py"


def report(
    file: str,
    seconds: float,
    *,
    is_deep: bool,
    when: Literal["call", "teardown"] = "teardown",
    marks: tuple[str, ...] = (),
) -> pytest.TestReport:
    keywords: dict[str, Literal[1]] = dict.fromkeys((*marks, "deep") if is_deep else marks, 1)
    properties = [(suites.CPU, seconds)] if when == "teardown" else []
    test = f"{file}::test_a"
    where = (file, 1, "test_a")
    return pytest.TestReport(
        test, where, keywords, "passed", None, when, user_properties=properties
    )


def renewed(
    path: Path,
    before: dict[str, Any],
    *reports: pytest.TestReport,
    in_turns: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return the tables after a run with these reports."""
    lines = [f"total = {before.pop('total')}"]
    for table, rows in before.items():
        lines += [f"[{table}]", *(f'"{name}" = {seconds}' for name, seconds in rows.items())]
    path.write_text("\n".join(lines), encoding="ascii")
    kept = suites.Durations(path, in_turns)
    for each in reports:
        kept.pytest_runtest_logreport(each)
    kept.pytest_sessionfinish()
    return tomllib.loads(path.read_text(encoding="ascii"))


def test_a_part_of_the_deep_tests_renews_its_own_rows(tmp_path: Path) -> None:
    other = "tests/conformance/test_faust.py"
    before = {"files": {QUICK_FILE: 9}, "deep": {other: 5, "gone.py": 6}, "costly": {}}

    found = renewed(
        tmp_path / "durations.toml",
        {"total": 9, **before},
        report(DEEP_FILE, 3.0, is_deep=True),
        report(DEEP_FILE, 4.0, is_deep=True),
        report(DEEP_FILE, 9.0, is_deep=True, when="call"),
    )

    deep = {DEEP_FILE: 7, other: 5}
    assert found == {"total": 9, "files": {QUICK_FILE: 9}, "deep": deep, "costly": {}}


def test_a_run_of_the_quick_suite_renews_all_its_rows(tmp_path: Path) -> None:
    before = {"files": {"gone.py": 9}, "deep": {DEEP_FILE: 5}, "costly": {}}

    found = renewed(
        tmp_path / "durations.toml",
        {"total": 9, **before},
        report(QUICK_FILE, 1.0, is_deep=False),
        report(QUICK_FILE, 1.0, is_deep=False, when="call"),
    )

    assert found == {"total": 1, "files": {QUICK_FILE: 1}, "deep": {DEEP_FILE: 5}, "costly": {}}


@pytest.mark.parametrize("mark", ["hunt", "soak"])
def test_what_continuous_integration_leaves_out_is_in_no_row(mark: str, tmp_path: Path) -> None:
    before = {"total": 9, "files": {}, "deep": {DEEP_FILE: 50}, "costly": {}}
    kept = report(DEEP_FILE, 2.0, is_deep=True)
    other = report(DEEP_FILE, 40.0, is_deep=True, marks=(mark,))

    assert renewed(tmp_path / "durations.toml", before, kept, other)["deep"] == {DEEP_FILE: 2}


def test_a_deep_file_that_is_quick_has_a_row_all_the_same(tmp_path: Path) -> None:
    before = {"total": 9, "files": {}, "deep": {}, "costly": {}}

    found = renewed(tmp_path / "durations.toml", before, report(DEEP_FILE, 0.2, is_deep=True))

    assert found["deep"] == {DEEP_FILE: 1}


def test_a_file_of_which_a_part_ran_keeps_its_row(tmp_path: Path) -> None:
    before = {"total": 9, "files": {}, "deep": {DEEP_FILE: 5}, "costly": {}}
    part = report(DEEP_FILE, 2.0, is_deep=True)

    found = renewed(tmp_path / "durations.toml", before, part, in_turns=frozenset({DEEP_FILE}))

    assert found["deep"] == {DEEP_FILE: 5}


@pytest.mark.parametrize(
    ("kept_s", "took_s", "is_deep", "is_costly"),
    [
        (None, 1.2, False, True),
        (None, 0.9, False, False),
        (None, 9.0, True, False),
        (3, 0.9, True, True),
        (3, 0.4, True, False),
    ],
)
def test_a_costly_test_is_found_and_stays_until_it_is_quick(
    kept_s: int | None, took_s: float, *, is_deep: bool, is_costly: bool, tmp_path: Path
) -> None:
    test = f"{QUICK_FILE}::test_a"
    costly = {} if kept_s is None else {test: kept_s}
    before = {"total": 9, "files": {}, "deep": {}, "costly": costly}

    found = renewed(
        tmp_path / "durations.toml", before, report(QUICK_FILE, took_s, is_deep=is_deep)
    )

    assert (test in found["costly"]) is is_costly


def test_a_slow_file_is_found() -> None:
    assert too_slow({"a": FILE_S_MAX + 1, "b": FILE_S_MAX}) == {"a": FILE_S_MAX + 1}
