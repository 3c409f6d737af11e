"""The coordinator of a node: what it takes from the node's settings."""

from __future__ import annotations

from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.records import Codec, walk
from tests.broker.api.administered import settings
from tests.broker.api.serving import Serving, serving
from tests.broker.coordinator.table import commit_request

OFFSETS = "__consumer_offsets"


async def commit(at: Serving) -> Codec:
    """How the batch with it is compressed."""
    end_offset = at.partition(OFFSETS).log_end_offset
    metadata = "m" * 1000
    await at.ask(commit_request("g", metadata=metadata), OffsetCommitResponse, 8)
    data = at.partition(OFFSETS).log.read(end_offset, 1 << 20).read()
    (batch,) = walk(data)
    return batch.codec


@serving()
async def test_settings_that_have_changed_hold_from_the_next_commit_on(at: Serving) -> None:
    at.create("t")
    at.create(OFFSETS, 1, cleanup__policy="compact")
    at.node.groups.elect(0)
    await at.pass_ms(10)

    found = []
    for codec in ("0", "1", "1", "0"):
        at.node.settings = settings(**{"offsets.topic.compression.codec": codec})
        found += [await commit(at), await commit(at)]
    none, gzip = [Codec.NONE] * 2, [Codec.GZIP] * 2
    assert found == [*none, *gzip, *gzip, *none]
