"""Configs, statuses and offsets: a log each, its fold, and the records that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.connect.storage.configs import ConfigImage, RestartRequest
from moldau.connect.storage.keys import (
    Json,
    Key,
    TargetState,
    TaskId,
    config_key,
    connector_status_key,
    dump,
    properties,
    target_state,
    task_status_key,
    topic_status_key,
)
from moldau.connect.storage.log import Entry, KeyedLog
from moldau.connect.storage.offsets import Offset, OffsetImage, Partition
from moldau.connect.storage.statuses import Status, StatusImage, is_stale


class ConfigStore:
    """Written by the leader alone, but for restarts that a user asks for."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.image = ConfigImage()

    async def put_connector(
        self, name: str, config: Mapping[str, str], target: TargetState | None = None
    ) -> None:
        """A new or changed config; with `target`, the state that it begins in."""
        entries: list[Entry] = []
        if target is not None:
            entries.append((config_key(Key.TARGET_STATE, name), target_state(target)))
        entries.append((config_key(Key.CONNECTOR, name), properties(config)))
        await self.log.append(entries)

    async def delete_connector(self, name: str) -> None:
        """Its tasks go with it."""
        await self.log.append(
            [(config_key(Key.CONNECTOR, name), None), (config_key(Key.TARGET_STATE, name), None)]
        )

    async def put_target(self, name: str, target: TargetState) -> None:
        """What the user wants of it; a stopped connector has no tasks."""
        entries: list[Entry] = [(config_key(Key.TARGET_STATE, name), target_state(target))]
        if target is TargetState.STOPPED:
            entries.append((config_key(Key.COMMIT, name), dump({"tasks": 0})))
        await self.log.append(entries)

    async def put_tasks(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """All task configs of a connector; they count from the commit record on."""
        entries: list[Entry] = [
            (config_key(Key.TASK, name, number), properties(config))
            for number, config in enumerate(configs)
        ]
        entries.append((config_key(Key.COMMIT, name), dump({"tasks": len(configs)})))
        await self.log.append(entries)

    async def put_restart(self, request: RestartRequest) -> None:
        """Every worker restarts what it runs of it."""
        value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
        await self.log.append([(config_key(Key.RESTART, request.connector), dump(value))])

    async def put_level(self, namespace: str, level: str) -> None:
        """Every worker logs so."""
        await self.log.append([(config_key(Key.LOGGER, namespace), dump({"level": level}))])

    async def put_session_key(self, key: str, algorithm: str, created_ms: int) -> None:
        """By which workers sign their requests to each other from now on."""
        value = {"key": key, "algorithm": algorithm, "creation-timestamp": created_ms}
        await self.log.append([(config_key(Key.SESSION_KEY), dump(value))])


class StatusStore:
    """Each worker writes about what it runs."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.image = StatusImage()

    async def put(self, statuses: Mapping[str | TaskId, Status | None]) -> None:
        """None forgets one. What another worker wrote in a later generation stays."""
        entries: list[Entry] = []
        for what, status in statuses.items():
            if isinstance(what, TaskId):
                key, known = task_status_key(what), self.image.tasks.get(what)
            else:
                key, known = connector_status_key(what), self.image.connectors.get(what)
            if status is None or not is_stale(status, known):
                entries.append((key, None if status is None else status.dump()))
        if entries:
            await self.log.append(entries)

    async def add_topics(self, task: TaskId, topics: Iterable[str], now_ms: int) -> None:
        """The connector uses these."""
        known = self.image.topics.get(task.connector, set())
        new = [topic for topic in topics if topic not in known]
        if new:
            await self.log.append([_topic_entry(task, topic, now_ms) for topic in new])

    async def reset_topics(self, connector: str) -> None:
        """Forget what it has used."""
        topics = sorted(self.image.topics.get(connector, ()))
        await self.log.append([(topic_status_key(topic, connector), None) for topic in topics])


def _topic_entry(task: TaskId, topic: str, now_ms: int) -> Entry:
    value = {
        "topic": {
            "name": topic,
            "connector": task.connector,
            "task": task.task,
            "discoverTimestamp": now_ms,
        }
    }
    return topic_status_key(topic, task.connector), dump(value)


class OffsetStore:
    """Of sources."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.image = OffsetImage()

    async def read(
        self, connector: str, partitions: Iterable[Partition]
    ) -> list[dict[str, Json] | None]:
        """The newest offset of each, in their order."""
        await self.log.read_to_end()
        return [self.image.of(connector, partition) for partition in partitions]

    async def write(
        self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]
    ) -> None:
        """Stored when this returns."""
        await self.log.append(self.image.entries(connector, offsets))
