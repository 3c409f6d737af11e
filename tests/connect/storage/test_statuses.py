"""The folds over the status topic and the offset topic."""

from __future__ import annotations

import asyncio

import pytest

from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.log import MemoryLog
from moldau.connect.storage.offsets import OffsetImage
from moldau.connect.storage.statuses import ConnectorState, Status, StatusImage, is_stale
from moldau.connect.storage.stores import StatusStore

RUNNING = b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:8083","generation":3}'


def test_statuses_of_connectors_and_tasks_are_told_apart() -> None:
    image = StatusImage()

    image.apply(b"status-connector-a-1", RUNNING)
    image.apply(b"status-task-a-1-0", RUNNING)

    assert image.connectors == {"a-1": Status(ConnectorState.RUNNING, "127.0.0.1:8083", 3)}
    assert list(image.tasks) == [TaskId("a-1", 0)]
    assert list(image.tasks_of("a-1")) == [TaskId("a-1", 0)]
    assert image.tasks_of("a") == {}


def test_a_tombstone_and_a_destroyed_state_forget() -> None:
    image = StatusImage()
    image.apply(b"status-connector-a", RUNNING)
    image.apply(b"status-task-a-0", RUNNING)

    image.apply(b"status-connector-a", None)
    image.apply(b"status-task-a-0", RUNNING.replace(b"RUNNING", b"DESTROYED"))

    assert image.connectors == {}
    assert image.tasks == {}


def test_what_was_dumped_is_read_again() -> None:
    image = StatusImage()
    status = Status(ConnectorState.FAILED, "w:1", 7, "why -> how", "1.0")

    image.apply(b"status-connector-a", status.dump())

    assert image.connectors["a"] == status


def test_topics_come_and_go() -> None:
    image = StatusImage()
    image.apply(b"status-topic-t:connector-a", b'{"topic":{"name":"t"}}')
    image.apply(b"status-topic-u:connector-a", b'{"topic":{"name":"u"}}')

    image.apply(b"status-topic-t:connector-a", None)

    assert image.topics == {"a": {"u"}}


def test_another_workers_later_status_is_not_replaced() -> None:
    known = Status(ConnectorState.RUNNING, "new:1", 5)

    assert is_stale(Status(ConnectorState.UNASSIGNED, "old:1", 4), known)
    assert not is_stale(Status(ConnectorState.UNASSIGNED, "new:1", 4), known)
    assert not is_stale(Status(ConnectorState.RUNNING, "old:1", 6), known)
    assert not is_stale(Status(ConnectorState.RUNNING, "old:1", 6), None)


def _apply(statuses: StatusStore, key: bytes, value: bytes | None) -> None:
    statuses.apply(key, value)


@pytest.mark.parametrize(
    "first",
    [ConnectorState.RUNNING, ConnectorState.PAUSED, ConnectorState.STOPPED, ConnectorState.FAILED],
)
def test_what_begins_to_run_in_a_group_that_begins_again_has_a_status(
    first: ConnectorState,
) -> None:
    """The group was gone, so its generations begin again at 1; the statuses have stayed."""
    task = TaskId("a", 0)
    log = MemoryLog()
    statuses = StatusStore(log)

    async def run() -> None:
        await log.start(lambda key, value: _apply(statuses, key, value))
        statuses.image.apply(b"status-task-a-0", RUNNING)
        await statuses.put({task: Status(ConnectorState.RESTARTING, "new:1", 1)})
        assert statuses.image.tasks[task].generation == 3, "of a run that is no more"
        await statuses.put({task: Status(first, "new:1", 1)})
        assert statuses.image.tasks[task] == Status(first, "new:1", 1)
        statuses.image.apply(b"status-task-a-0", RUNNING)
        await statuses.put({task: Status(ConnectorState.FAILED, "new:1", 1)})
        assert statuses.image.tasks[task].state is ConnectorState.RUNNING, (
            "another worker runs it now"
        )

    asyncio.run(run())


def test_an_offset_keeps_the_bytes_of_the_key_it_was_written_under() -> None:
    image = OffsetImage()
    written_by_java = b'["jdbc",{"table":"t","protocol":"1"}]'
    image.apply(written_by_java, b'{"incrementing":4}')

    same = {"protocol": "1", "table": "t"}

    assert image.of("jdbc", same) == {"incrementing": 4}
    entries = image.entries("jdbc", [(same, {"incrementing": 5}), ({"table": "u"}, None)])
    assert entries == [
        (written_by_java, b'{"incrementing":5}'),
        (b'["jdbc",{"table":"u"}]', None),
    ]


def test_a_tombstone_resets_an_offset_and_foreign_keys_are_passed_over() -> None:
    image = OffsetImage()
    image.apply(b'["a",{"f":1}]', b'{"line":1}')
    image.apply(b"nonsense", b'{"line":1}')
    image.apply(b'["a",{"f":1}]', None)

    assert image.all("a") == []


def test_a_status_that_an_earlier_owner_replaced_is_returned_to_be_written_again() -> None:
    """1. The worker "old" cannot be reached, and "new" runs its task. 2. "old" learns of its loss
    in a later generation and sets the task to UNASSIGNED."""
    task = TaskId("a", 0)
    statuses = StatusStore(MemoryLog())
    replaced: list[object] = []

    async def run() -> None:
        await statuses.log.start(lambda key, value: replaced.append(statuses.apply(key, value)))
        await statuses.put({task: Status(ConnectorState.RUNNING, "new:1", 4)})
        await statuses.log.append(
            [(b"status-task-a-0", Status(ConnectorState.UNASSIGNED, "old:1", 5).dump())]
        )
        await statuses.put({task: Status(ConnectorState.UNASSIGNED, "new:1", 6)})
        await statuses.log.append(
            [(b"status-task-a-0", Status(ConnectorState.UNASSIGNED, "old:1", 7).dump())]
        )

    asyncio.run(run())

    assert replaced == [None, (task, Status(ConnectorState.RUNNING, "new:1", 4)), None, None]
