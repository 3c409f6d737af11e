"""One node: the shell around a `Replica`. It owns the clock, the sockets and the disk.

Invariant: one `Ready` is carried out at a time, so nothing is sent before what it promises is
durable. What needs no disk is done at once, in the callback that brought the event. The rest is for
one task, `run`; events that arrive while it syncs wait and are taken together: under load one sync
serves many records, with no code for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from examples.replicated_log.framing import Connection
from examples.replicated_log.messages import (
    AppendRequest,
    AppendResponse,
    PeerMessage,
    ProduceRequest,
    ReadRequest,
    ReadResponse,
    VoteRequest,
    VoteResponse,
)
from examples.replicated_log.peer import Address, Peer
from examples.replicated_log.replica import Ready, Replica, Timing
from examples.replicated_log.store import Store
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.runtime import Runtime

Event = Callable[[Replica, int], None]

DIRECTORY = "/var/lib/replicated-log"


class Server:
    """A node of the cluster: `await server.run()`."""

    replica_class = Replica
    store_class = Store

    def __init__(
        self,
        runtime: Runtime,
        number: int,
        addresses: Mapping[int, Address],
        timing: Timing | None = None,
        directory: str = DIRECTORY,
    ) -> None:
        self.number = number
        self.replica: Replica | None = None
        self._runtime = runtime
        self._addresses = addresses
        self._timing = timing or Timing()
        self._store = self.store_class(runtime.files, directory)
        self._peers: dict[int, Peer] = {}
        self._asked_by: dict[int, Connection] = {}
        self._events: deque[Event] = deque()
        self._to_save: asyncio.Future[Ready] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    async def run(self) -> None:
        """Serve until cancelled. An OSError from the disk ends it: the disk cannot be trusted."""
        runtime = self._runtime
        saved = await runtime.run_blocking(self._store.open)
        self.replica = self.replica_class(
            self.number, sorted(self._addresses), saved, runtime.random, self._timing
        )
        try:
            async with await runtime.network.listen(self._accept, *self._addresses[self.number]):
                self._dial(self.replica.others)
                self.replica.start(self._now_ms())
                self._set_alarm(self.replica.deadline_ms)
                while True:
                    ready = await self._next_to_save()
                    await self.save(ready)
                    self.publish(ready)
        finally:
            self._store.close()

    def _next_to_save(self) -> asyncio.Future[Ready]:
        """The next `Ready` that needs the disk; what happened since the last one comes first."""
        self._to_save = to_save = asyncio.get_running_loop().create_future()
        if self._events:
            self._step(to_save)
        return to_save

    def _dial(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            peer = Peer(self._runtime, self._addresses[number], self._on_response)
            self._peers[number] = peer
            self._runtime.spawn(peer.run(), name=f"peer-{number}")

    def _happened(self, event: Event) -> None:
        """It counts now, or when the disk is done."""
        self._events.append(event)
        to_save = self._to_save
        if to_save is not None and not to_save.done():
            self._step(to_save)

    def _step(self, to_save: asyncio.Future[Ready]) -> None:
        """Tell the replica what has happened, and do what it says; disk work is left to `run`."""
        try:
            ready = self.take_ready()
            if ready.needs_disk:
                to_save.set_result(ready)
            else:
                self.publish(ready)
        except Exception as error:  # a bug, which ends `run`: this node must say no more
            to_save.set_exception(error)

    def take_ready(self) -> Ready:
        """Everything that follows from all that has happened."""
        replica, events, now_ms = self.replica, self._events, self._now_ms()
        assert replica is not None
        while events:
            events.popleft()(replica, now_ms)
        replica.on_tick(now_ms)
        if self._alarm is None or self._alarm_ms > replica.deadline_ms:
            self._set_alarm(replica.deadline_ms)
        return replica.take_ready()

    async def save(self, ready: Ready) -> None:
        """Make durable what `ready` promises, in the order that it asks for."""
        if ready.vote is not None:
            await self._runtime.run_blocking(self._store.save_vote, ready.vote)
        if ready.truncate_to is not None:
            self._store.truncate(ready.truncate_to)
        if ready.records:
            self._store.append(ready.records)
        if ready.changes_log:
            if self._runtime.buggify("sync-waits", 0.05):
                await asyncio.sleep(self._runtime.random.uniform(0, 0.1))
            await self._runtime.run_blocking(self._store.sync)

    def publish(self, ready: Ready) -> None:
        """Say what is true now."""
        for number, message in ready.messages:
            self._send(number, message)
        for client, response in ready.answers:
            assert isinstance(client, Connection)
            client.send(response)

    def _set_alarm(self, deadline_ms: int) -> None:
        """Wake the replica when it is that late.

        Deadlines mostly move away. An alarm that comes early does no harm, so it stays.
        """
        if self._alarm is not None:
            self._alarm.cancel()
        delay_s = (deadline_ms - self._now_ms()) / 1000
        if self._runtime.buggify("early-alarm"):
            delay_s = self._runtime.random.uniform(0, delay_s)
        self._alarm_ms = deadline_ms
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._happened(_nothing_but_time)

    def _send(self, number: int, message: PeerMessage) -> None:
        """Requests have a connection of ours; responses go back to where the request came from."""
        match message:
            case AppendRequest() | VoteRequest():
                self._peers[number].send(message)
            case AppendResponse() | VoteResponse():
                self._asked_by[number].send(message)

    def _accept(self) -> Connection:
        return Connection(self._on_request)

    def _on_request(self, message: Message, connection: Connection) -> None:
        match message:
            case AppendRequest(leader=number) | VoteRequest(candidate=number):
                self._asked_by[number] = connection
                self._happened(lambda replica, now_ms: replica.on_message(message, now_ms))
            case ProduceRequest(value=value):
                self._happened(
                    lambda replica, now_ms: replica.on_produce(connection, value, now_ms)
                )
            case ReadRequest(offset=offset):
                self._happened(lambda replica, _: _answer_read(replica, offset, connection))
            case _:
                raise MalformedMessage("not a request", message=type(message).__name__)

    def _on_response(self, message: Message) -> None:
        match message:
            case AppendResponse() | VoteResponse():
                self._happened(lambda replica, now_ms: replica.on_message(message, now_ms))
            case _:
                raise MalformedMessage("not a response", message=type(message).__name__)

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // 1_000_000


def _answer_read(replica: Replica, offset: int, connection: Connection) -> None:
    records = replica.read(offset)
    connection.send(ReadResponse(high_watermark=replica.high_watermark, records=records))


def _nothing_but_time(replica: Replica, now_ms: int) -> None:
    """The event of an alarm: what it does comes from `on_tick`."""
