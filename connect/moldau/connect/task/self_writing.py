"""Runs a source task that writes its topics itself: start it, poll its status, store its offset.

Invariants: the worker opens no producer for it; an offset is stored only after the task has
reported it; an offset that cannot be stored is tried again later, unless a newer one replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.api import SelfWriting, SelfWritingSourceTask
from moldau.connect.errors import ConnectError
from moldau.connect.installed.plugins import connector_class
from moldau.connect.task.clients import settings_for
from moldau.connect.task.offsets import AskedOffsets
from moldau.connect.task.resolution import resolved_task
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.topic_creation import TopicCreation

Reached = tuple[Mapping[str, Any], Mapping[str, Any]]


class SelfWritingRunner(TaskRunner):
    """Runs one task that writes its topics itself."""

    _task: SelfWritingSourceTask

    def open(self) -> None:
        self._is_started = False
        self._metrics: dict[str, float] = {}
        self._unstored: Reached | None = None
        spec = self.spec
        found = resolved_task(spec)
        config, task_config, worker = found.config, found.task_config, found.worker
        self.secrets |= found.secrets
        task = connector_class(spec.connector_config)().task_class()()
        if not isinstance(task, SelfWritingSourceTask):
            raise ConnectError("the task class of the connector must be a SelfWritingSourceTask")
        self._task = task
        topics = task.topics(task_config)
        creation = TopicCreation(config, worker, settings_for(config, worker, "admin"))
        try:
            for topic in topics:
                creation.ensure(topic)
        finally:
            creation.close()
        clients = settings_for(config, worker, "producer")
        stored = AskedOffsets(self._ask_offsets)
        task.initialize(SelfWriting(spec.connector, clients, self.is_paused, stored))
        self._is_started = True
        in_order(lambda: task.start(task_config), "the start of the task")
        self.link.notify("topics", topics=topics)

    def _ask_offsets(self, partitions: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = self.link.ask("offsets.read", partitions=partitions)
        return found

    def work(self) -> None:
        self._metrics = dict(self._task.poll_status())
        self._store()

    def _store(self) -> None:
        self._unstored = self._task.offset() or self._unstored
        if self._unstored is None:
            return
        try:
            self.link.ask("offsets.write", offsets=[self._unstored])
        except ConnectError as error:
            self.log.warn("the offset could not be stored, trying later", error=str(error))
            return
        self._unstored = None

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
