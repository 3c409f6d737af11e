"""Tests in an order that shows what one of them leaves for another: `make test-order`.

`--turn backwards` runs the tests of each file from its last to its first: with a run forwards, each
two of a file have then met in both orders. `--turn alone` ends every fixture after each test, those
of files and of the session too, so that no test finds what another has made, nor needs it. A random
order, which all other runs have, meets the same sooner or later, but on somebody else's day.

As a program it names the files of the change that have tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.change import changed

ROOT: Final = Path(__file__).parent.parent
BACKWARDS: Final = "backwards"
ALONE: Final = "alone"

_T = TypeVar("_T")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--turn`: which of the two."""
    parser.addoption("--turn", choices=[BACKWARDS, ALONE], default=BACKWARDS)


def backwards(named: Iterable[tuple[str, _T]]) -> list[_T]:
    """Return what each file has, the last of it first; files stay in their order."""
    by_file: dict[str, list[_T]] = {}
    for name, item in named:
        by_file.setdefault(name.partition("::")[0], []).insert(0, item)
    return [item for items in by_file.values() for item in items]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """After all that choose and order."""
    if session.config.getoption("--turn") == BACKWARDS:
        session.items[:] = backwards((each.nodeid, each) for each in session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """No test has a next one, so pytest ends all that this one has set up."""
    if session.config.getoption("--turn") != ALONE or session.config.option.collectonly:
        return None
    for item in session.items:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return True


def files_of(change: Iterable[str]) -> Sequence[str]:
    """Return those that have tests and are still there."""
    return sorted(
        path
        for path in change
        if path.startswith("tests/")
        and path.rpartition("/")[2].startswith("test_")
        and path.endswith(".py")
        and (ROOT / path).exists()
    )


if __name__ == "__main__":
    print(*files_of(changed(ROOT) or ()))
