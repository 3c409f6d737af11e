"""docs/admin.md: every program in it against real brokers, and every method in its table."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest

from moldau import client
from moldau.client import Admin, NewTopic
from tests.client.guides import programs, run_programs, text_of
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker
from tests.peers.known_topics import known

GUIDE = "admin.md"
ADDRESS = "localhost:9092"
CREATE_TOPICS = Admin.create_topics

Change = Callable[..., Coroutine[Any, Any, Any]]


def followed(change: Change) -> Change:
    """The same change, which returns when the broker has read of it: metadata is read in order, so
    it has when it knows a topic that was made later."""

    async def change_and_follow(admin: Admin, *arguments: Any, **named: Any) -> Any:
        result = await change(admin, *arguments, **named)
        later = f"later-{uuid4().hex}"
        await CREATE_TOPICS(admin, [NewTopic(later, 1, 1)])
        await known(admin, later)
        await admin.delete_topic(later)
        return result

    return change_and_follow


@pytest.fixture
def broker_in_step(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A person reads the guide more slowly than a test, which asks Apache Kafka's broker what it
    has yet to hear from its controller."""
    for name in ("create_topics", "create_partitions", "alter_configs"):
        monkeypatch.setattr(Admin, name, followed(getattr(Admin, name)))
    return broker


def methods_of(kind: type) -> list[str]:
    return sorted(name for name in dir(kind) if not name.startswith("_"))


def test_the_table_has_each_method_once() -> None:
    rows = [line for line in text_of(GUIDE).splitlines() if line.startswith("| `kafka")]
    parts = [re.split(r"`(\w+)\(admin\)`", row) for row in rows]
    named = re.findall(r"`([a-z_]+)`", "".join(part[0] for part in parts))
    assert sorted([*named, "aclose", "start"]) == methods_of(Admin)
    beside: dict[str, list[str]] = {}
    for part in parts:
        for kind, names in zip(part[1::2], part[2::2], strict=True):
            beside.setdefault(kind, []).extend(re.findall(r"`([a-z_]+)`", names))
    assert {kind: sorted(names) for kind, names in beside.items()} == {
        kind: methods_of(getattr(client, kind)) for kind in beside
    }


@pytest.mark.real
def test_the_guides_programs_run(
    broker_in_step: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(programs(GUIDE)) == 3
    run_programs(GUIDE, {ADDRESS: broker_in_step.bootstrap_servers})
    told = capsys.readouterr().out
    assert "offset=2, " in told
    assert "offset=3, " in told
    assert "sensors 3\n" in told
    assert "nowhere UNKNOWN_TOPIC_OR_PARTITION" in told
    assert "retention.ms 86400000 TOPIC" in told
    assert "cleanup.policy delete,compact TOPIC" in told
    assert "audit" in told
    assert "in service" in told
    assert "led by 1 [1]" in told
    assert "'metadata.version': " in told
