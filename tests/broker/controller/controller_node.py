"""A node with the only controller and the image of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.broker.controller.active_controller import ActiveController, Observer
from moldau.broker.controller.image import Image
from moldau.broker.controller.metadata_batches import replay_batches
from moldau.broker.controller.rules import Rules
from moldau.broker.decision.context import of_node
from moldau.broker.raft.flushing import Flusher
from moldau.broker.raft.quorum import Membership, Quorum
from moldau.errors.codes import KafkaError
from moldau.protocol.declare import MetadataRecord, Request, Response
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.runtime import Runtime
from tests.broker.controller.cluster import CLUSTER_ID, FEATURES, schema, topic
from tests.broker.raft.leading import lead


class Node:
    """A controller, and the image of a broker that hears of what is committed."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.image = Image()
        self.failures: list[Exception] = []
        runtime.files.make_dirs("/data")
        now_ms = runtime.clock.wall_ms()
        self.quorum = Quorum.open(runtime.files, "/data", Membership(1, (1,)), now_ms)
        self.flusher = Flusher(runtime, self.quorum, self.on_flushed, self.failures.append)
        replay_batches(self.image, self.quorum.batches())  # all of it is from lives before
        lead(self.quorum, now_ms)
        self.active = ActiveController(
            runtime,
            self.quorum,
            Rules(CLUSTER_ID, 1, schema()),
            Observer(
                self.on_committed,
                lambda: self.flusher.flush_soon(),
                self.failures.append,
            ),
        )
        self.active.start()

    def on_committed(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        assert end_offset <= self.quorum.high_watermark
        self.image.replay_all(records)

    def on_flushed(self, has_advanced: bool) -> None:
        if has_advanced:
            self.active.on_committed()

    async def ask(self, request: Request) -> Response | KafkaError:
        answer: asyncio.Future[Response | KafkaError] = asyncio.get_running_loop().create_future()
        context = of_node(1, type(request).spec.versions.last)
        self.active.request(request, context, answer.set_result)
        return await answer

    async def join(self) -> None:
        registered = await self.ask(
            BrokerRegistrationRequest(
                broker_id=1,
                cluster_id=CLUSTER_ID,
                incarnation_id=self.runtime.random.randbytes(16),
                listeners=[],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in FEATURES.items()
                ],
                rack=None,
                log_dirs=[b"d" * 16],
            )
        )
        assert isinstance(registered, BrokerRegistrationResponse)
        assert registered.error_code == 0
        await self.ask(
            BrokerHeartbeatRequest(
                broker_id=1,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=self.quorum.high_watermark,
                want_fence=False,
                want_shut_down=False,
            )
        )

    async def create(self, *names: str) -> list[int]:
        answer = await self.ask(CreateTopicsRequest(topics=[topic(each) for each in names]))
        assert isinstance(answer, CreateTopicsResponse), answer
        return [each.error_code for each in answer.topics]
