"""This node among the brokers of its cluster: it joins, stays and leaves by asking the controller.

Invariant: one request of the lifecycle is under way at a time, so each answer finds the state that
it was asked in. What requests say and answers mean is decided in `lifecycle`; here they are
carried, and repeated.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.broker.api.node import Undecided
from moldau.broker.server.lifecycle import (
    ADVICE,
    CONTROLLER_VERSION,
    HEARTBEAT_VERSION,
    REGISTRATION_VERSION,
    BrokerState,
    Lifecycle,
)
from moldau.broker.server.storage import cordoned_directories
from moldau.broker.settings.node import broker_heartbeat_interval_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import BrokerRegistrationResponse

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.server.channel import LocalController
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.protocol.declare import Request, Response
    from moldau.runtime import Runtime

TICK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.1
HAND_OVER_SECONDS: Final = 0.02
"""Between two questions whether others lead by now what this node led."""
PATIENCE_SECONDS: Final = 3.0
"""How long a node that stops looks for a controller: others may have stopped before it."""


class Membership:
    """Of one life of the process."""

    def __init__(
        self,
        runtime: Runtime,
        node: Node,
        controller: LocalController,
        lifecycle: Lifecycle,
        log: Logger,
    ) -> None:
        self.lifecycle = lifecycle
        self.offline: set[Uuid] = set()
        """Log directories that failed since we registered."""
        self._runtime = runtime
        self._node = node
        self._controller = controller
        self._log = log
        self._is_twin_told = False
        self._turn = asyncio.Lock()
        self._living: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Register, and be unfenced. KafkaError when the controller does not want us."""
        if self.lifecycle.identity.controller_endpoints:
            registration = self.lifecycle.controller_registration()
            if self._is_alone:
                self._controller.submit(registration, CONTROLLER_VERSION, lambda answer: None)
            else:
                await self._ask(registration, CONTROLLER_VERSION)
        await self._register()
        while self.lifecycle.state is BrokerState.FENCED:
            await self._beat()
            if self.lifecycle.state is BrokerState.FENCED:
                await asyncio.sleep(RETRY_SECONDS)

    def live(self) -> None:
        """Send heartbeats from now on, and let the controller feel that time passes."""
        self._living = self._runtime.spawn(self._live(), name="broker-life")

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        beat_at = loop.time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if loop.time() >= beat_at:
                interval_ms = self._node.settings[broker_heartbeat_interval_ms]
                beat_at = loop.time() + interval_ms / 1000 - TICK_SECONDS / 2
                if not self._turn.locked():  # else one waits for a controller yet
                    self.stay()
            self._controller.tick()

    def stay(self) -> None:
        """Send a heartbeat now, because something changed that it tells."""
        if self._living is not None:
            self._runtime.spawn(self._stay(), name="broker-heartbeat")

    async def _stay(self) -> None:
        """One heartbeat; what no controller answers is asked again by the next one."""
        async with self._turn:
            try:
                if not self.lifecycle.is_registered:
                    await self._register()
                await self._beat()
            except KafkaError as error:
                self._log.debug("the controller does not answer a heartbeat", why=str(error))

    async def rest(self) -> None:
        """No more heartbeats by themselves."""
        living, self._living = self._living, None
        if living is not None:
            living.cancel()
            await asyncio.wait([living])

    async def leave(self, seconds: float) -> None:
        """Controlled shutdown: heartbeats that want it, until the controller lets us go."""
        lifecycle = self.lifecycle
        if not lifecycle.is_registered:
            return
        try:
            async with asyncio.timeout(seconds), self._turn:
                lifecycle.stop()
                while lifecycle.state is BrokerState.STOPPING and lifecycle.is_registered:
                    await self._beat(PATIENCE_SECONDS)
                    if lifecycle.state is BrokerState.STOPPING:
                        await asyncio.sleep(HAND_OVER_SECONDS)
        except Undecided:
            self._log.warn("stops while no controller is there, as when a whole cluster stops")
        except (KafkaError, TimeoutError) as error:
            self._log.failure("stops without the controller's leave", error)

    async def _register(self) -> None:
        while True:
            answer = await self._ask(self.lifecycle.registration(), REGISTRATION_VERSION)
            assert isinstance(answer, BrokerRegistrationResponse)
            if answer.error_code != ErrorCode.DUPLICATE_BROKER_REGISTRATION or self._is_alone:
                break
            # An earlier life of this node counts as alive until its session ends.
            if not self._is_twin_told:
                self._is_twin_told = True
                code = ErrorCode.DUPLICATE_BROKER_REGISTRATION
                self._log.warn(
                    f"waits to be registered: {ADVICE[code]} (an earlier life of this node counts "
                    "as alive for the rest of its session)"
                )
            await asyncio.sleep(RETRY_SECONDS)
        self.lifecycle.on_registered(answer)
        self._node.broker_epoch = self.lifecycle.broker_epoch
        self._controller.is_broker_up = not self._is_alone

    @property
    def _is_alone(self) -> bool:
        return self._controller.is_alone

    async def _beat(self, patience_s: float | None = None) -> None:
        node = self._node
        cordoned = cordoned_directories(node.settings, node.directories)
        request = self.lifecycle.heartbeat(node.metadata_offset, self.offline, cordoned)
        answer = await self._ask(request, HEARTBEAT_VERSION, patience_s)
        assert isinstance(answer, BrokerHeartbeatResponse)
        self.lifecycle.on_heartbeat(answer)

    async def _ask(
        self, request: Request, version: int, patience_s: float | None = None
    ) -> Response:
        """Of the controller, again and again while there is none: all that is asked here may be
        asked twice. KafkaError when it refuses, or when there was none for so long."""
        loop = asyncio.get_running_loop()
        until = None if patience_s is None else loop.time() + patience_s
        while True:
            answer = await self._ask_once(request, version)
            if not isinstance(answer, KafkaError):
                return answer
            is_over = until is not None and loop.time() >= until
            if self._is_alone or is_over or not answer.retriable:
                raise answer
            await asyncio.sleep(RETRY_SECONDS)

    async def _ask_once(self, request: Request, version: int) -> Response | KafkaError:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Response | KafkaError] = loop.create_future()

        def on_answer(answer: Response | KafkaError) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._controller.submit(request, version, on_answer)
        return await answered
