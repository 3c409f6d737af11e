"""Runs tasks that read or write their topics themselves: start one, poll its status, stop it.

Invariants: the worker opens no client for it. A sink commits to the group that any sink of this
name and `consumer.override.group.id` has, so offsets and lag are shown as usual. An offset of a
source is stored only after the task has reported it; one that cannot be stored is tried again
later, unless a newer one replaces it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from moldau.connect.api import (
    SelfReading,
    SelfReadingSinkTask,
    SelfWriting,
    SelfWritingSourceTask,
)
from moldau.connect.errors import ConnectError
from moldau.connect.installed.plugins import connector_class
from moldau.connect.task.clients import settings_for
from moldau.connect.task.link import ANSWER_S
from moldau.connect.task.offsets import AskedOffsets
from moldau.connect.task.resolution import ResolvedTask, resolved_task
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.settings import ErrorSettings
from moldau.connect.task.subscription import subscription_of
from moldau.connect.task.topic_creation import TopicCreation, ensure_dead_letter_topic

Reached = tuple[Mapping[str, Any], Mapping[str, Any]]
T = TypeVar("T", SelfReadingSinkTask, SelfWritingSourceTask)


class SelfRunner(TaskRunner, Generic[T]):
    """Runs one task that has clients of its own."""

    kind: type[T]
    _task: T

    def open(self) -> None:
        self._is_started = False
        self._metrics: dict[str, float] = {}
        found = resolved_task(self.spec)
        self.secrets |= found.secrets
        task = connector_class(self.spec.connector_config)().task_class()()
        if not isinstance(task, self.kind):
            raise ConnectError(f"the task class of the connector must be a {self.kind.__name__}")
        self._task = task
        topics = self._prepare(task, found)
        self._is_started = True
        in_order(lambda: task.start(found.task_config), "the start of the task")
        if topics:
            self.link.notify("topics", topics=topics)

    @abstractmethod
    def _prepare(self, task: T, found: ResolvedTask) -> list[str]:
        """Make the topics of the task and initialize it. Return the names of its topics."""

    def work(self) -> None:
        self._metrics = dict(self._task.poll_status())

    def on_paused(self) -> None:
        if self.is_paused:
            self._task.pause()
        else:
            self._task.resume()

    def close(self, *, is_clean: bool) -> None:
        if getattr(self, "_is_started", False):
            self.guarded("stop", self._task.stop)

    def metrics(self) -> dict[str, float]:
        return getattr(self, "_metrics", {})


class SelfReadingRunner(SelfRunner[SelfReadingSinkTask]):
    """Runs one sink task that reads its topics itself."""

    kind = SelfReadingSinkTask

    def _prepare(self, task: SelfReadingSinkTask, found: ResolvedTask) -> list[str]:
        config, worker, name = found.config, found.worker, self.spec.connector
        errors = ErrorSettings.of(config)
        if errors.dead_letter_topic:
            admin = settings_for(config, worker, "admin")
            ensure_dead_letter_topic(admin, errors.dead_letter_topic, errors.dead_letter_replicas)
        # As `group_of` of `moldau.connect.herder.positions`, which shows and alters the offsets.
        group = config.get("consumer.override.group.id", f"connect-{name}")
        clients = settings_for(config, worker, "consumer")
        task.initialize(SelfReading(name, group, clients, self.is_paused))
        return subscription_of(config)[0] or []


class SelfWritingRunner(SelfRunner[SelfWritingSourceTask]):
    """Runs one source task that writes its topics itself."""

    kind = SelfWritingSourceTask
    _unstored: Reached | None = None

    def _prepare(self, task: SelfWritingSourceTask, found: ResolvedTask) -> list[str]:
        config, worker = found.config, found.worker
        topics = task.topics(found.task_config)
        creation = TopicCreation(config, worker, settings_for(config, worker, "admin"))
        try:
            for topic in topics:
                creation.ensure(topic)
        finally:
            creation.close()
        stored = AskedOffsets.over(self.link, ANSWER_S)
        clients = settings_for(config, worker, "producer")
        task.initialize(SelfWriting(self.spec.connector, clients, self.is_paused, stored))
        return topics

    def work(self) -> None:
        super().work()
        self._unstored = self._task.offset() or self._unstored
        if self._unstored is None:
            return
        try:
            self.link.ask("offsets.write", offsets=[self._unstored])
        except ConnectError as error:
            self.log.warn("the offset could not be stored, trying later", error=str(error))
            return
        self._unstored = None
