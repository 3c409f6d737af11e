"""This node as a broker of its cluster: registering, sending heartbeats and leaving.

Invariant: one request of the lifecycle is in flight at a time, so each response arrives in the
state in which its request was made. `lifecycle` decides on the contents of requests and responses.
This module sends and repeats them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.levels import supports_controllers
from moldau.broker.decision.context import of_node
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
    from moldau.broker.controller.image import Image
    from moldau.broker.server.channel import LocalController
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.protocol.declare import Request, Response
    from moldau.runtime import Runtime

TICK_SECONDS: Final = 1.0
"""The longest pause between two ticks of the controller. Quicker heartbeats make it shorter."""
RETRY_SECONDS: Final = 0.1
HAND_OVER_SECONDS: Final = 0.02
"""The pause between two heartbeats while other nodes take over this node's leaderships."""
PATIENCE_SECONDS: Final = 3.0
"""How long a stopping node searches for a controller: the controllers may have stopped before
it."""


class ControllerRegistration:
    """Registers the controller of this process whenever the metadata does not know it.

    While the process runs, the metadata ends up with a registration of this start, also if the
    cluster learns only later how to record it, or if the registration was removed (KIP-919). One
    registration is asked for at a time.
    """

    def __init__(self, controller: LocalController, lifecycle: Lifecycle) -> None:
        self._controller = controller
        self._lifecycle = lifecycle
        self._is_asking = False

    def renew(self, image: Image) -> None:
        """Register, unless the metadata has the registration. Call it from time to time."""
        if self._is_asking or not supports_controllers(image.features.metadata_version):
            return
        me = self._lifecycle.identity
        known = image.brokers.controllers.get(me.node_id)
        if known is not None and known.incarnation_id == me.incarnation_id:
            return
        self.ask()

    def ask(self) -> None:
        """Register, whatever this node knows. The answer does not matter."""
        self._is_asking = True
        context = of_node(self._lifecycle.identity.node_id, CONTROLLER_VERSION)
        registration = self._lifecycle.controller_registration()
        self._controller.submit(registration, context, self._on_answer)

    def _on_answer(self, answer: Response | KafkaError) -> None:
        self._is_asking = False


class Membership:
    """The membership of this broker, from start to exit."""

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
        """The ids of the log directories that failed since the registration."""
        self._runtime = runtime
        self._node = node
        self._controller = controller
        self._log = log
        self._is_twin_told = False
        self._own_controller = ControllerRegistration(controller, lifecycle)
        self._turn = asyncio.Lock()
        self._living: asyncio.Task[None] | None = None
        self._beating: set[asyncio.Task[None]] = set()

    async def join(self) -> None:
        """Register, and wait until the broker is unfenced. Raise KafkaError if the controller
        rejects it."""
        if self._has_controller:
            if self._is_alone:
                self._own_controller.ask()
            else:
                await self._ask(self.lifecycle.controller_registration(), CONTROLLER_VERSION)
        await self._register()
        while self.lifecycle.state is BrokerState.FENCED:
            if not self.lifecycle.is_registered:  # it was unregistered meanwhile
                await self._register()
            await self._beat()
            if self.lifecycle.state is BrokerState.FENCED:
                await asyncio.sleep(RETRY_SECONDS)

    def live(self) -> None:
        """Start to send heartbeats, and to tick the controller."""
        self._living = self._runtime.spawn(self._live(), name="broker-life")

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        beat_at = loop.time()
        while True:
            await asyncio.sleep(min(TICK_SECONDS, max(beat_at - loop.time(), 0)))
            now = loop.time()
            if now >= beat_at:
                # Each at its own time: a late turn of the loop does not delay those after it.
                interval = self._node.settings[broker_heartbeat_interval_ms] / 1000
                beat_at = max(beat_at + interval, now)
                # otherwise an earlier request still waits for a controller
                if not self._turn.locked():
                    self.stay()
            if self._has_controller:
                self._own_controller.renew(self._node.image)
            self._controller.tick()

    def stay(self) -> None:
        """Send a heartbeat now, because something that it reports has changed."""
        if self._living is not None:
            task = self._runtime.spawn(self._stay(), name="broker-heartbeat")
            self._beating.add(task)
            task.add_done_callback(self._beating.discard)

    async def _stay(self) -> None:
        """Send one heartbeat. If no controller answers, the next one sends it again."""
        async with self._turn:
            try:
                if not self.lifecycle.is_registered:
                    await self._register()
                await self._beat()
            except KafkaError as error:
                self._log.debug("the controller does not answer a heartbeat", why=str(error))

    async def rest(self) -> None:
        """Stop the periodic heartbeats, and cancel one that still searches for a controller: if
        most controllers have ended, it would search for ever, and `leave` would wait for it."""
        living, self._living = self._living, None
        tasks = [*([] if living is None else [living]), *self._beating]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def leave(self, seconds: float) -> None:
        """Do a controlled shutdown: send heartbeats that request it until the controller permits
        it, for at most `seconds`. An error is logged, not raised."""
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
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER:
                self._log.warn("stops while no controller is there, as when a whole cluster stops")
            else:
                self._log.failure("stops without the controller's leave", error)

    async def _register(self) -> None:
        while True:
            answer = await self._ask(self.lifecycle.registration(), REGISTRATION_VERSION)
            assert isinstance(answer, BrokerRegistrationResponse)
            code = ErrorCode(answer.error_code)
            is_twin = code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            if self._is_alone or not (is_twin or code.retriable):
                break
            # A controller that lost its quorum may have registered this node all the same. Then it
            # registers again, which the same incarnation may do. Also, an earlier run of this node
            # counts as alive until its session ends.
            if is_twin and not self._is_twin_told:
                self._is_twin_told = True
                self._log.warn(
                    f"waits to be registered: {ADVICE[code]} (an earlier life of this node counts "
                    "as alive for the rest of its session)"
                )
            await asyncio.sleep(RETRY_SECONDS)
        self.lifecycle.on_registered(answer)
        self._node.broker_epoch = self.lifecycle.broker_epoch
        self._controller.is_broker_up = not self._is_alone

    @property
    def _has_controller(self) -> bool:
        return bool(self.lifecycle.identity.controller_endpoints)

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
        """Send a request to the controller, and repeat it while no controller answers: every
        request here may be sent twice. Raise KafkaError if the controller rejects it, or if none
        answers for `patience_s`."""
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

        self._controller.submit(request, of_node(self._node.node_id, version), on_answer)
        return await answered
