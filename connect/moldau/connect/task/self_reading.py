"""Runs a sink task that reads its topics itself: start it, poll its status, stop it.

Invariants: the worker opens no client for it; it commits to the group that any sink of this name
and `consumer.override.group.id` has, so offsets and lag are shown as usual.
"""

from __future__ import annotations

from moldau.connect.api import SelfReading, SelfReadingSinkTask
from moldau.connect.errors import ConnectError
from moldau.connect.installed.plugins import connector_class
from moldau.connect.task.clients import settings_for
from moldau.connect.task.resolution import resolved_task
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.settings import Config, ErrorSettings
from moldau.connect.task.subscription import subscription_of
from moldau.connect.task.topic_creation import ensure_dead_letter_topic


class SelfReadingRunner(TaskRunner):
    """Runs one task that reads its topics itself."""

    _task: SelfReadingSinkTask

    def open(self) -> None:
        self._is_started = False
        self._metrics: dict[str, float] = {}
        spec = self.spec
        found = resolved_task(spec)
        config, task_config, worker = found.config, found.task_config, found.worker
        self.secrets |= found.secrets
        task = connector_class(spec.connector_config)().task_class()()
        if not isinstance(task, SelfReadingSinkTask):
            raise ConnectError("the task class of the connector must be a SelfReadingSinkTask")
        self._task = task
        _make_dead_letter_topic(config, worker)
        name, clients = spec.connector, settings_for(config, worker, "consumer")
        # As `group_of` of `moldau.connect.herder.positions`, which shows and alters the offsets.
        group = config.get("consumer.override.group.id", f"connect-{name}")
        task.initialize(SelfReading(name, group, clients, self.is_paused))
        self._is_started = True
        in_order(lambda: task.start(task_config), "the start of the task")
        topics, _ = subscription_of(config)
        if topics:
            self.link.notify("topics", topics=topics)

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


def _make_dead_letter_topic(config: Config, worker: Config) -> None:
    errors = ErrorSettings.of(config)
    if errors.dead_letter_topic:
        admin = settings_for(config, worker, "admin")
        ensure_dead_letter_topic(admin, errors.dead_letter_topic, errors.dead_letter_replicas)
