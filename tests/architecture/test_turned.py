"""Tests in another order, `tests/turned.py`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.turned import ALONE, BACKWARDS, backwards, files_of, pytest_runtestloop

NAMES = ["a.py::one", "a.py::two[x::y]", "b.py::one", "a.py::three", "b.py::two"]


def test_each_file_is_turned_and_files_stay_in_their_order() -> None:
    wanted = ["a.py::three", "a.py::two[x::y]", "a.py::one", "b.py::two", "b.py::one"]
    assert backwards(zip(NAMES, NAMES, strict=True)) == wanted


def test_no_test_has_a_next_one_and_all_run() -> None:
    ran: list[tuple[str, object]] = []

    def protocol(item: Any, nextitem: object) -> None:
        ran.append((item.name, nextitem))

    hook = SimpleNamespace(pytest_runtest_protocol=protocol)

    def looped(turn: str) -> bool | None:
        option = SimpleNamespace(collectonly=False)
        config = SimpleNamespace(hook=hook, option=option, getoption=lambda name: turn)
        items = [SimpleNamespace(name=each, config=config) for each in NAMES]
        session: Any = SimpleNamespace(config=config, items=items)
        return pytest_runtestloop(session)

    assert looped(BACKWARDS) is None
    assert ran == []
    assert looped(ALONE)
    assert ran == [(each, None) for each in NAMES]


def test_files_of_a_change_are_those_with_tests() -> None:
    own = "tests/architecture/test_turned.py"
    assert files_of({own, "tests/turned.py", "tests/test_gone.py", "broker/test_x.py"}) == [own]
