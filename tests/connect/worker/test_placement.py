"""Which process runs which task."""

from __future__ import annotations

import pytest

from moldau.connect.storage.keys import TaskId
from moldau.connect.worker.placement import SUSPECT_MS, TaskPlacement, hosts_max


def placed(placement: TaskPlacement, *names: str, now_ms: int = 0) -> list[int]:
    """The numbers of the processes of these tasks, each `connector-number`."""
    found = []
    for name in names:
        connector, _, number = name.rpartition("-")
        task = TaskId(connector, int(number))
        found.append(placement.place(task, is_isolated=False, now_ms=now_ms)[0])
    return found


@pytest.mark.parametrize(
    ("setting", "cores", "wanted"), [(-1, 2, 4), (-1, 16, 16), (1, 16, 1), (9, 2, 9)]
)
def test_hosts_are_as_many_as_cores_unless_set(setting: int, cores: int, wanted: int) -> None:
    assert hosts_max(setting, cores) == wanted


def test_the_first_tasks_have_a_process_each_and_later_ones_the_emptiest() -> None:
    placement = TaskPlacement(3)

    assert placed(placement, "a-0", "b-0", "c-0", "d-0", "e-0", "f-0") == [0, 1, 2, 0, 1, 2]


def test_tasks_of_one_connector_are_kept_apart() -> None:
    placement = TaskPlacement(2)

    assert placed(placement, "a-0", "b-0", "b-1", "a-1") == [0, 1, 0, 1]


def test_an_isolated_task_shares_with_none() -> None:
    placement = TaskPlacement(1)
    alone = placement.place(TaskId("a", 0), is_isolated=True, now_ms=0)

    assert alone == (0, True)
    assert placed(placement, "b-0", "c-0") == [1, 1]


def test_a_process_without_tasks_is_closed() -> None:
    placement = TaskPlacement(1)
    placed(placement, "a-0", "b-0")

    assert not placement.remove(0, TaskId("a", 0))
    assert placement.remove(0, TaskId("b", 0))
    assert not placement.is_open(0)
    assert placed(placement, "c-0") == [1]


def test_the_tasks_of_a_crashed_process_are_kept_apart() -> None:
    placement = TaskPlacement(2)
    placed(placement, "a-0", "b-0", "c-0", "d-0")

    again = placement.on_crash(0, now_ms=5)

    assert again == {TaskId("a", 0), TaskId("c", 0)}
    assert placed(placement, "a-0", "c-0", now_ms=6) == [2, 1]


def test_a_task_alone_in_a_crash_is_its_cause() -> None:
    placement = TaskPlacement(2)
    placed(placement, "a-0")

    assert placement.on_crash(0, now_ms=5) == frozenset()


def test_after_two_crashes_a_task_runs_alone_for_a_while() -> None:
    placement = TaskPlacement(1)
    placed(placement, "a-0", "b-0")
    placement.on_crash(0, now_ms=5)
    assert placed(placement, "a-0", "b-0", now_ms=6) == [1, 1]
    placement.on_crash(1, now_ms=7)

    assert placed(placement, "a-0", "b-0", now_ms=8) == [2, 3]
    assert placed(placement, "c-0", "d-0", now_ms=9) == [4, 4]

    placement.remove(2, TaskId("a", 0))
    assert placed(placement, "a-0", now_ms=SUSPECT_MS + 10) == [4]


def test_a_task_that_is_gone_is_no_suspect() -> None:
    placement = TaskPlacement(1)
    placed(placement, "a-0", "b-0")
    placement.on_crash(0, now_ms=5)
    placed(placement, "a-0", "b-0", now_ms=6)
    placement.on_crash(1, now_ms=7)

    placement.forget(TaskId("a", 0))

    assert placed(placement, "c-0", "a-0", "b-0", now_ms=8) == [2, 2, 3]
