"""After an election the page has no series that would need the end of a partition, until it is
known."""

from __future__ import annotations

from typing import Final

from moldau.broker.coordinator.kind import KeyType
from moldau.broker.exposition.page import Page
from moldau.broker.exposition.partitions import led_partitions
from moldau.broker.exposition.scrape import groups
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.broker.api.requests import batch, produce
from tests.broker.api.serving import Serving, serving
from tests.broker.exposition.scraped import Scraped

END: Final = "kafka_topic_partition_current_offset"
LAG: Final = "kafka_consumergroup_lag"
LAG_SUM: Final = "kafka_consumergroup_lag_sum"


def scraped(at: Serving) -> Scraped:
    page = Page()
    for series in (led_partitions, groups):
        list(series(page, at.node))
    return Scraped("".join(page.pieces()))


async def commit(at: Serving, offset: int) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    request = OffsetCommitRequest(
        group_id="billing", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    answer = await at.ask(request, OffsetCommitResponse, 9)
    assert answer.topics[0].partitions[0].error_code == 0


def series(at: Serving) -> dict[str, float]:
    """The value of each of the series for the topic, if it is there."""
    page = scraped(at)
    return {
        name: value
        for name in (END, LAG, LAG_SUM)
        for labels, value in page.values.get(name, {}).items()
        if dict(labels).get("topic") == "t"
    }


@serving()
async def test_no_end_and_no_lag_until_the_end_is_known(at: Serving) -> None:
    at.create("t")
    at.create("__consumer_offsets", 1)
    coordinators = at.node.coordinators.of(KeyType.GROUP)
    coordinators.elect(0)
    while not list(coordinators.loaded()):
        await at.pass_ms(1)
    at.send(produce("t", batch(3)), 12)
    await commit(at, 1)
    assert series(at) == {END: 3, LAG: 2, LAG_SUM: 2}
    at.begin_epoch("t")
    at.send(produce("t", batch(2), acks=1), 12)
    at.begin_epoch("t")
    assert series(at) == {}
    at.follow("t")
    assert series(at) == {}, "a follower waits for the high watermark of its leader"
    at.node.replicas.hosted["t", 0].take_over(5, 0)
    assert series(at) == {LAG: 4, LAG_SUM: 4}
