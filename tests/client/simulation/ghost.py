"""Somebody who commits under ids that belong to others, or that nobody has any more.

What it commits is what is stored already, with a note that tells under which id and epoch it came:
so it does no harm where it is let in, and the watch sees whether it should have been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.client import TopicPartition
from moldau.client.group.member import Identity
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.runtime import Runtime
from tests.broker.simulation.channel import TROUBLE, Place, Refused, channel
from tests.client.simulation.actors import LASTING, World, pause
from tests.client.simulation.watch import COMMIT_VERSION, GHOST

RETRY_S: Final = 0.05


class Ghost:
    """A process."""

    def __init__(self, world: World, place: Place, groups: Callable[[], list[str]]) -> None:
        self.world = world
        self.place = place
        self.groups = groups

    async def run(self, runtime: Runtime) -> None:
        while not self.world.is_ending:
            try:
                async with channel(runtime, self.place) as connection:
                    while not self.world.is_ending:
                        await pause(runtime, 4 * self.world.pause_s)
                        request = self._request(runtime)
                        if request is not None:
                            answer = await connection.ask(
                                request, OffsetCommitResponse, COMMIT_VERSION
                            )
                            code = ErrorCode(answer.topics[0].partitions[0].error_code)
                            self.world.truth.counts[f"ghost heard {code.name}"] += 1
            except (*TROUBLE, Refused):
                await pause(runtime, RETRY_S)
        self.world.on_ended()

    def _request(self, runtime: Runtime) -> OffsetCommitRequest | None:
        random = runtime.random
        name = random.choice(self.groups())
        known = self.world.watch.identities.get(name, [])
        if not known:
            return None
        identity: Identity = random.choice(known)
        where = TopicPartition(random.choice(LASTING), random.randrange(4))
        stored = self.world.truth.groups[name].stored(where)
        if stored is None:
            return None
        partition = OffsetCommitRequestPartition(
            partition_index=where.partition,
            committed_offset=stored,
            committed_metadata=f"{GHOST} {identity.member_id} {identity.epoch}",
        )
        return OffsetCommitRequest(
            group_id=name,
            generation_id_or_member_epoch=identity.epoch,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            topics=[OffsetCommitRequestTopic(name=where.topic, partitions=[partition])],
        )
