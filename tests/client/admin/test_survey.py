"""Lists of a cluster in slices agree with those that the admin client reads at once."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.client.admin import survey as reading
from moldau.client.admin.share_groups import ShareGroupAdmin
from moldau.client.admin.survey import Survey
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.connection import Connection
from moldau.link.metadata import Topic
from moldau.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from moldau.testing import EmbeddedBroker

pytestmark = pytest.mark.real


async def slices_of(survey: Survey) -> list[list[Topic]]:
    found = [each async for each in survey.topics()]
    assert [each.is_last for each in found] == [False] * (len(found) - 1) + [True]
    return [each.topics for each in found]


def test_slices_are_the_whole_list_also_of_a_topic_that_lies_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        monkeypatch.setattr(reading, "PARTITIONS", 3)
        async with (
            EmbeddedBroker() as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            counts = {"a": 1, "b": 8, "c": 3, "d": 2}
            await admin.create_topics([NewTopic(name, count) for name, count in counts.items()])
            slices = await slices_of(Survey(admin))
            assert len(slices) >= 4
            listed = await admin.list_topics(internal=True)
            assert [topic for each in slices for topic in each] == listed
            some = [each async for each in Survey(admin).topics(["d", "none", "b"])]
            assert [topic.name for each in some for topic in each.topics] == ["b", "d"]
            assert [each async for each in Survey(admin).topics([])] == []

    asyncio.run(run())


def test_a_broker_without_slices_gives_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Connection.version_of

    def old(self: Connection, request: type, **options: int | None) -> int:
        if request is DescribeTopicPartitionsRequest:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return served(self, request, **options)

    async def run() -> None:
        async with (
            EmbeddedBroker() as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            await admin.create_topics([NewTopic(name, 2) for name in "ab"])
            monkeypatch.setattr(Connection, "version_of", old)
            ((first, second),) = await slices_of(Survey(admin))
            assert (first.name, second.name, len(first.partitions)) == ("a", "b", 2)

    asyncio.run(run())


def test_sizes_and_lags_of_many_in_few_requests() -> None:
    async def run() -> None:
        async with (
            EmbeddedBroker() as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            await admin.create_topics([NewTopic("empty", 2), NewTopic("full", 2)])
            async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                for number in range(6):
                    await producer.send_and_wait("full", b"x", partition=number % 2)
            for number in range(3):
                async with Consumer(
                    bootstrap_servers=broker.bootstrap_servers, group_id=f"group-{number}"
                ) as consumer:
                    consumer.assign([("full", 0), ("full", 1)])
                    await consumer.commit({("full", 0): number, ("full", 1): 3})
            await ShareGroupAdmin(admin).alter_offsets("share", {("full", 0): 1})
            survey = Survey(admin)
            sizes = await survey.sizes({"empty": 2, "full": 2})
            assert sizes["empty"] == 0 < sizes["full"]
            groups = [f"group-{number}" for number in range(3)]
            lags = {"group-0": 3, "group-1": 2, "group-2": 1, "share": 2}
            assert await survey.lags(groups, ["share"], {}) == lags
            assert await survey.lags(groups, [], {"full": (-1, -1)}) == dict.fromkeys(groups, 0)

    asyncio.run(run())
