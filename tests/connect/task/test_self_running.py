"""A sink task that reads its topics itself: the group that it commits to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.connect.api import SelfReadingSinkTask, SinkConnector
from moldau.connect.herder.positions import group_of
from moldau.connect.task import self_running
from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.task.self_running import SelfReadingRunner
from moldau.logging import Loggers
from moldau.runtime.real import RealClock

GROUPS: list[str] = []


class _Task(SelfReadingSinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        GROUPS.append(self.context.group)

    def poll_status(self) -> Mapping[str, float]:
        return {}

    def pause(self) -> None:
        """Nothing runs."""

    def resume(self) -> None:
        """Nothing runs."""

    def stop(self) -> None:
        """Nothing runs."""


class _Connector(SinkConnector):
    task = _Task


@pytest.mark.parametrize("override", [{}, {"consumer.override.group.id": "shared"}])
def test_a_task_commits_to_the_group_whose_offsets_are_shown_and_altered(
    monkeypatch: pytest.MonkeyPatch, override: dict[str, str]
) -> None:
    monkeypatch.setattr(self_running, "connector_class", lambda config: _Connector)
    config = {"connector.class": "x", "topics": "orders", **override}
    spec = TaskSpec("lake", 0, {"bootstrap.servers": "localhost:9092"}, config, config)
    sent: list[Message] = []
    log = Loggers(RealClock(), lambda line: None).get("moldau.connect.lake")

    SelfReadingRunner(spec, Link(sent.append), RealClock(), log).open()

    assert GROUPS.pop() == group_of("lake", config)
    assert sent == [{"type": "topics", "topics": ["orders"]}]
