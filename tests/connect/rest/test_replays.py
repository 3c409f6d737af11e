"""Two replays of the same dead letters: the later one ends the earlier, and none is sent twice."""

from __future__ import annotations

from argparse import Namespace
from io import StringIO

import pytest

from moldau.cli.command import Context
from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.connect.commands import dead_letters
from moldau.plugins import Plugins
from moldau.testing import SyncEmbeddedBroker

pytestmark = pytest.mark.real


def no_plugins() -> Plugins:
    raise AssertionError("a replay needs no plugin")


def replayed(bootstrap: str, name: str) -> str:
    """What the command says."""
    arguments = Namespace(name=name, where=None, to=name, json=False)
    context = Context(StringIO(), StringIO(), {}, no_plugins)
    dead_letters._replay((bootstrap, f"{name}-dlq"), {}, arguments, context)
    assert isinstance(context.out, StringIO)
    return context.out.getvalue()


def test_a_replay_that_begins_ends_the_one_before_it(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap, name = moldau_broker.bootstrap_servers, moldau_topic
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(f"{name}-dlq"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(f"{name}-dlq", b"bad").result()
    send, others = dead_letters._send, []

    def after_another(*given: object) -> bool:
        """Send a record of a replay once another replay was made meanwhile."""
        monkeypatch.setattr(dead_letters, "_send", send)
        others.append(replayed(bootstrap, name))
        return send(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(dead_letters, "_send", after_another)
    with pytest.raises(dead_letters.ReplayEnded, match="another replay"):
        replayed(bootstrap, name)
    assert others == ["1 replayed, 0 passed over\n"]
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions(name))
        (record,) = dead_letters._all_of(consumer, name)
    assert record.value == b"bad"
