"""The loads of the bench of groups, small ones on our own broker: they end, and notice errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import group_crowd
from bench.group_crowd import PROTOCOLS, Acts, Crowd, make_topics
from bench.group_wire import MEMBERS_A_GROUP, TOPIC, formed
from bench.groups import PROPERTIES
from bench.groups_at_rest import STEADY_PROPERTIES
from moldau.client import Admin, NewTopic
from moldau.ids import Uuid
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.testing.threaded import SyncEmbeddedBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]
FEW_LOGS = {"offsets.topic.num.partitions": "2"}


def port_of(broker: SyncEmbeddedBroker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a broker with the settings of both loads and the crowd's topics."""
    with SyncEmbeddedBroker({**PROPERTIES, **STEADY_PROPERTIES, **FEW_LOGS}) as broker:

        async def prepare(runtime: Runtime) -> None:
            await make_topics(runtime, port_of(broker))

        run(prepare)
        yield port_of(broker)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_crowd_shares_all_partitions_in_each_act(
    port: int, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_crowd, "TIMES", 1)

    async def play(runtime: Runtime) -> tuple[Acts, int]:
        acts = await Crowd(runtime, port, f"crowd-{protocol}", protocol, size=3).play()
        async with Admin(bootstrap_servers=f"127.0.0.1:{port}", runtime=runtime) as admin:
            found = (await admin.describe_groups([f"crowd-{protocol}"]))[f"crowd-{protocol}"]
        assert not isinstance(found, Exception)
        return acts, len(found.members)

    acts, left = run(play)
    assert min(acts.all_join, acts.one_leaves, acts.one_joins) > 0
    assert left == 0


async def topic_id_of(runtime: Runtime, port: int, topic: str) -> Uuid:
    async with Admin(bootstrap_servers=f"127.0.0.1:{port}", runtime=runtime) as admin:
        known = (await admin.describe_topics([topic]))[topic]
        if isinstance(known, Exception):
            return (await admin.create_topic(NewTopic(topic, MEMBERS_A_GROUP, 1))).topic_id
        return known.topic_id


@pytest.mark.parametrize("is_consumer", [False, True], ids=["classic", "KIP-848"])
def test_groups_at_rest_are_answered_and_an_error_is_noticed(port: int, is_consumer: bool) -> None:
    async def play(runtime: Runtime) -> None:
        topic_id = await topic_id_of(runtime, port, TOPIC)
        name = f"rest-{is_consumer}"
        steady = await formed(port, name, topic_id, is_consumer=is_consumer, count=2)
        try:
            assert await steady.live(0.7) > 0
            stranger = steady.members[0]
            stranger.epoch += 7
            stranger.settle(is_consumer=is_consumer)
            with pytest.raises(AssertionError, match="1 members failed, as: "):
                await steady.live(0.7)
        finally:
            steady.close()

    run(play)
