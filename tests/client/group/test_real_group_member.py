"""Members of Connect's kind of group, and of a consumer's, on Apache Kafka and on moldau."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import (
    Admin,
    ErrorCode,
    GroupDescription,
    GroupMember,
    KafkaError,
    NewTopic,
    TopicPartition,
)
from tests.client.group.bounded_run import run
from tests.client.group.greeters import WORDS, Greeters
from tests.conformance.quick_brokers import quick_kafka as quick_kafka
from tests.conformance.quick_brokers import quick_moldau as quick_moldau
from tests.peers.either_broker import Broker, either

pytestmark = pytest.mark.real

broker = either("quick_kafka", "quick_moldau")


def member(broker: Broker, group: str, protocols: Greeters, **options: Any) -> GroupMember:
    return GroupMember(
        {"bootstrap.servers": broker.bootstrap_servers, "heartbeat.interval.ms": "200"},
        group_id=group,
        protocols=protocols,
        **{"protocol_type": "connect", **options},
    )


async def described(admin: Admin) -> GroupDescription:
    found = (await admin.describe_groups(["members-connect"]))["members-connect"]
    assert isinstance(found, GroupDescription)
    return found


def test_members_share_words_and_are_described(broker: Broker) -> None:
    async def main() -> None:
        first, second = Greeters(b"one"), Greeters(b"two")
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            async with (
                member(broker, "members-connect", first) as one,
                member(broker, "members-connect", second) as two,
            ):
                await first.until(1)
                await second.until(1)
                await one.rejoin("both are there now")
                while not first.words or not second.words:  # noqa: ASYNC110 it bounds itself
                    await asyncio.sleep(0.05)
                assert sorted(first.words + second.words) == sorted(WORDS)
                found = await described(admin)
                assert found.protocol_type == "connect"
                assert {each.member_id for each in found.members} == {one.member_id, two.member_id}
                assert one.generation == two.generation
                assert one.is_leader != two.is_leader
            found = await described(admin)
            assert found.members == ()
        for each in (first, second):  # the one that left later may have begun to join again
            assert [call for call in each.calls if call != "metadata"][-1] == "revoked"

    run(main)


def test_a_static_member_that_is_replaced_hears_of_it(broker: Broker) -> None:
    async def main() -> None:
        first, second = Greeters(), Greeters()
        async with member(broker, "members-static", first, group_instance_id="a") as one:
            await first.until(1)
            async with member(broker, "members-static", second, group_instance_id="a") as two:
                await second.until(1)
                assert second.words == WORDS
                with pytest.raises(KafkaError, match=r"group\.instance\.id") as caught:
                    await one.wait()
                await two.aclose(leave_group=True)
        assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
        assert first.calls[-1] == "lost"

    run(main)


def test_offsets_are_stored_with_the_generation(broker: Broker) -> None:
    async def main() -> None:
        greeters = Greeters()
        where = TopicPartition("members-offsets", 0)
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic(where.topic, 1, 1))
        async with member(broker, "members-offsets", greeters, protocol_type="consumer") as one:
            await greeters.until(1)
            await one.commit({where: 7}, "seven")
            assert await one.committed([where]) == {where: (7, "seven", -1)}
            generation = one.generation
            await one.rejoin()
            await greeters.until(2)
            assert one.generation > generation
            await one.commit({where: 8})
            assert await one.committed([where]) == {where: (8, "", -1)}

    run(main)
