"""The quick suite stays quick: what its files take is written down and capped.

`make test ARGS="--write-durations"` renews tests/durations.toml. A file that is over its cap is
split, made faster, or (if it tests the tests, or needs Java) named in tests/suites.py.
"""

from __future__ import annotations

import tomllib
from typing import Any, Final

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


def test_a_slow_file_is_found() -> None:
    assert too_slow({"a": FILE_S_MAX + 1, "b": FILE_S_MAX}) == {"a": FILE_S_MAX + 1}
