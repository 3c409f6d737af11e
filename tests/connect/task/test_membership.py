"""Instance ids of sink tasks, and when their members leave."""

from __future__ import annotations

import pytest

from moldau.connect.storage.keys import TaskId
from moldau.connect.task.membership import SinkMembership, StopFor, instance_id, settings_with

TASK = TaskId("orders", 2)


def test_an_id_names_the_workers_the_connector_and_the_task() -> None:
    assert instance_id("cluster", TASK) == "connect-cluster-orders-2"
    assert instance_id("cluster", TaskId("orders", 3)) == "connect-cluster-orders-3"


@pytest.mark.parametrize("name", ["a b", "a/b", "a" * 300, "a" * 300 + "b"])
def test_an_id_has_only_letters_and_a_length_that_kafka_takes(name: str) -> None:
    found = instance_id("cluster", TaskId(name, 0))

    assert len(found) <= 249
    assert all(each.isascii() and (each.isalnum() or each in "._-") for each in found)
    assert found == instance_id("cluster", TaskId(name, 0))


def test_names_that_look_alike_after_the_change_of_letters_differ() -> None:
    found = {instance_id("c", TaskId(name, 0)) for name in ("a b", "a/b", "a_b")}

    assert len(found) == 3


@pytest.mark.parametrize(
    ("why", "leaves"), [(StopFor.RESTART, False), (StopFor.MOVE, True), (StopFor.END, True)]
)
def test_a_task_leaves_unless_it_comes_back_at_once(why: StopFor, leaves: bool) -> None:
    assert SinkMembership.of(TASK, "cluster", {}).leaves(why) is leaves


def test_an_id_of_the_users_is_kept_and_told_apart_by_tasks() -> None:
    given = {"group.instance.id": "mine", "group.id": "ours"}

    first = SinkMembership.of(TaskId("orders", 0), "cluster", given)
    third = SinkMembership.of(TASK, "cluster", given)

    assert (first.group_id, first.instance_id) == ("ours", "mine")
    assert third.instance_id == "mine-2"
    assert [first.leaves(why) for why in StopFor] == [False, False, True]


def test_an_empty_id_makes_a_dynamic_member() -> None:
    given = {"group.instance.id": " ", "client.rack": "r"}
    found = SinkMembership.of(TASK, "cluster", given)

    assert settings_with(given, found) == {"client.rack": "r"}
    assert found.leaves(StopFor.RESTART) is None
