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
from tests.suites import DURATIONS, is_deep_file

FILE_S_MAX: Final = 120
TOTAL_S_MAX: Final = 1800
"""Added up over two workers that share the machine with others; quiet, it is a third less."""


def durations() -> dict[str, Any]:
    return tomllib.loads(DURATIONS.read_text(encoding="ascii"))


def too_slow(files: dict[str, float]) -> dict[str, float]:
    return {file: seconds for file, seconds in files.items() if seconds > FILE_S_MAX}


def test_no_file_takes_long() -> None:
    files = durations()["files"]

    assert len(files) > 50
    assert too_slow(files) == {}


def test_the_whole_takes_minutes() -> None:
    assert 100 < durations()["total"] <= TOTAL_S_MAX


def test_what_is_written_down_is_there_and_not_deep() -> None:
    assert [
        file for file in durations()["files"] if not (ROOT / file).exists() or is_deep_file(file)
    ] == []


def test_deep_files_that_are_written_down_are_there() -> None:
    deep = durations()[suites.DEEP]

    assert len(deep) > 100
    assert [file for file in deep if not suites.may_be_deep_file(file)] == []


DEEP_FILE, QUICK_FILE = "tests/conformance/test_kcat.py", "tests/ids/test_ids.py"


def report(file: str, seconds: float, *, is_deep: bool) -> pytest.TestReport:
    keywords: dict[str, Literal[1]] = {"deep": 1} if is_deep else {}
    return pytest.TestReport(
        f"{file}::test_a", (file, 1, "test_a"), keywords, "passed", None, "call", duration=seconds
    )


def test_a_part_of_the_deep_tests_renews_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "durations.toml"
    other = "tests/conformance/test_faust.py"
    path.write_text(f'total = 9\n[files]\n"{QUICK_FILE}" = 9\n[deep]\n"{other}" = 5\n"gone.py" = 6')
    kept = suites.Durations(path)
    for seconds in (3.0, 4.0):
        kept.pytest_runtest_logreport(report(DEEP_FILE, seconds, is_deep=True))
    kept.pytest_sessionfinish()

    found = tomllib.loads(path.read_text(encoding="ascii"))
    assert found == {"total": 9, "files": {QUICK_FILE: 9}, "deep": {DEEP_FILE: 7, other: 5}}


def test_a_run_of_the_quick_suite_renews_all_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "durations.toml"
    path.write_text(f'total = 9\n[files]\n"gone.py" = 9\n[deep]\n"{DEEP_FILE}" = 5\n')
    kept = suites.Durations(path)
    kept.pytest_runtest_logreport(report(QUICK_FILE, 2.0, is_deep=False))
    kept.pytest_sessionfinish()

    found = tomllib.loads(path.read_text(encoding="ascii"))
    assert found == {"total": 2, "files": {QUICK_FILE: 2}, "deep": {DEEP_FILE: 5}}


def test_a_slow_file_is_found() -> None:
    assert too_slow({"a": FILE_S_MAX + 1, "b": FILE_S_MAX}) == {"a": FILE_S_MAX + 1}
