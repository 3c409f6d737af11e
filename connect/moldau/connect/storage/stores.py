"""The stores of configs, statuses and offsets: each has a log, its fold, and writing methods."""

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
from moldau.connect.storage.statuses import (
    ConnectorState,
    Status,
    StatusImage,
    is_stale,
    is_taken_back,
)


class ConfigStore:
    """The store of configs. Only the leader writes to it, except for restart requests and log
    levels, which are of no one worker."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.image = ConfigImage()

    async def put_connector(
        self, name: str, config: Mapping[str, str], target: TargetState | None = None
    ) -> None:
        """Write a new or changed config. `target` is the initial state, if given."""
        entries: list[Entry] = []
        if target is not None:
            entries.append((config_key(Key.TARGET_STATE, name), target_state(target)))
        entries.append((config_key(Key.CONNECTOR, name), properties(config)))
        await self.log.append_as_leader(entries)

    async def delete_connector(self, name: str) -> None:
        """Delete a connector and its tasks."""
        await self.log.append_as_leader(
            [(config_key(Key.CONNECTOR, name), None), (config_key(Key.TARGET_STATE, name), None)]
        )

    async def put_target(self, name: str, target: TargetState) -> None:
        """Write the state that the user wants. A stopped connector has no tasks."""
        entries: list[Entry] = [(config_key(Key.TARGET_STATE, name), target_state(target))]
        if target is TargetState.STOPPED:
            entries.append((config_key(Key.COMMIT, name), dump({"tasks": 0})))
        await self.log.append_as_leader(entries)

    async def put_tasks(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write all task configs of a connector. They take effect with the commit record."""
        entries: list[Entry] = [
            (config_key(Key.TASK, name, number), properties(config))
            for number, config in enumerate(configs)
        ]
        entries.append((config_key(Key.COMMIT, name), dump({"tasks": len(configs)})))
        await self.log.append_as_leader(entries)

    async def put_task_count(self, name: str, count: int) -> None:
        """Record that older tasks are fenced, and how many tasks may have producers now."""
        await self.log.append_as_leader(
            [(config_key(Key.TASK_COUNT, name), dump({"task-count": count}))]
        )

    async def put_restart(self, request: RestartRequest) -> None:
        """Request that every worker restarts what it runs of a connector."""
        value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
        await self.log.append([(config_key(Key.RESTART, request.connector), dump(value))])

    async def put_level(self, namespace: str, level: str) -> None:
        """Set a log level on every worker."""
        await self.log.append([(config_key(Key.LOGGER, namespace), dump({"level": level}))])

    async def put_session_key(self, key: str, algorithm: str, created_ms: int) -> None:
        """Write the key with which workers sign their requests from now on."""
        value = {"key": key, "algorithm": algorithm, "creation-timestamp": created_ms}
        await self.log.append_as_leader([(config_key(Key.SESSION_KEY), dump(value))])


class StatusStore:
    """The store of statuses. Each worker writes those of what it runs."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.image = StatusImage()
        self._told: dict[str | TaskId, Status] = {}
        """The last status of what runs here."""

    def apply(self, key: bytes, value: bytes | None) -> tuple[str | TaskId, Status] | None:
        """Apply a record of the log. Return the status of what runs here, to be written again, if
        an earlier owner has just replaced it."""
        what = self.image.apply(key, value)
        mine = None if what is None else self._told.get(what)
        if what is None or mine is None or not is_taken_back(mine, self.image.of(what)):
            return None
        return what, mine

    async def put(self, statuses: Mapping[str | TaskId, Status | None]) -> None:
        """Write statuses; None deletes one. A late one does not overwrite that of a new owner."""
        entries: list[Entry] = []
        for what, status in statuses.items():
            known = self.image.of(what)
            if isinstance(what, TaskId):
                key = task_status_key(what)
            else:
                key = connector_status_key(what)
            if status is None:
                entries.append((key, None))
            elif not is_stale(status, known, is_first=what not in self._told):
                entries.append((key, status.dump()))
                self._told[what] = status
            if status is None or status.state is ConnectorState.UNASSIGNED:
                self._told.pop(what, None)
        if entries:
            await self.log.append(entries)

    async def add_topics(self, task: TaskId, topics: Iterable[str], now_ms: int) -> None:
        """Note that the connector uses these topics."""
        known = self.image.topics.get(task.connector, set())
        new = [topic for topic in topics if topic not in known]
        if new:
            await self.log.append([_topic_entry(task, topic, now_ms) for topic in new])

    async def reset_topics(self, connector: str) -> None:
        """Forget the topics that a connector has used."""
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
    """The store of the offsets of sources."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.image = OffsetImage()

    async def read(
        self, connector: str, partitions: Iterable[Partition]
    ) -> list[dict[str, Json] | None]:
        """Return the newest offset of each partition, in the given order."""
        await self.log.read_to_end()
        return [self.image.of(connector, partition) for partition in partitions]

    def keys(self, connector: str, partitions: Iterable[Partition]) -> list[str]:
        """Return the keys of these partitions: those in the log, or what they will be."""
        entries = self.image.entries(connector, [(each, None) for each in partitions])
        return [key.decode() for key, _ in entries]

    async def write(
        self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]
    ) -> None:
        """Store offsets; None deletes one. They are durable on return."""
        await self.log.append(self.image.entries(connector, offsets))
