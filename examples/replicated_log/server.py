"""One node: the shell around a `Replica`. It owns the clock, the sockets and the disk.

Invariant: one `Ready` is carried out at a time, so no promise is sent before it is durable. What
needs no disk is done at once, in the callback of the event. Events that arrive while the disk is
busy wait and are handled together: under load one sync serves many records, without any code for
it.

There are only callbacks and no task between them: an event goes from the network to the replica,
and its results to disk and network, without a queue whose reader would have to be woken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from examples.replicated_log.framing import Connection
from examples.replicated_log.messages import (
    AppendRequest,
    AppendResponse,
    ProduceRequest,
    ReadRequest,
    ReadResponse,
    VoteRequest,
    VoteResponse,
    encode_frame,
)
from examples.replicated_log.peer import Address, Peer
from examples.replicated_log.replica import Ready, Replica, Timing
from examples.replicated_log.store import Store
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.runtime import Runtime

REQUESTS = {AppendRequest, VoteRequest}
RESPONSES = {AppendResponse, VoteResponse}
CLIENT_REQUESTS = {ProduceRequest, ReadRequest}
PEER_MESSAGES = REQUESTS | RESPONSES
DIRECTORY = "/var/lib/replicated-log"
NEVER_MS = 1 << 62


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
        self._clock_ns = runtime.clock.monotonic_ns
        self._store = self.store_class(runtime.files, directory)
        self._peers: dict[int, Peer] = {}
        self._asked_by: dict[int, Connection] = {}
        self._inbox: deque[tuple[Message, Connection]] = deque()
        self._is_busy = True
        """Whether messages must wait: for the start, for the disk, or forever at the end."""
        self._saving: asyncio.Future[None] | None = None
        self._unpublished: Ready
        """The `Ready` that is being saved."""
        self._ended = asyncio.get_running_loop().create_future()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = NEVER_MS

    def format(self) -> None:
        """Make the disk that of a new node. Call it once, on a thread: it waits for the disk."""
        self._store.format()

    async def run(self) -> None:
        """Serve until cancelled. Raise OSError from the disk, which is unreliable from then on."""
        runtime = self._runtime
        saved = await runtime.run_blocking(self._store.open)
        self.replica = self.replica_class(
            self.number, sorted(self._addresses), saved, runtime.random, self._timing
        )
        try:
            async with await runtime.network.listen(self._accept, *self._addresses[self.number]):
                self._dial(self.replica.others)
                self.replica.start(self._clock_ns() // 1_000_000)
                self._is_busy = False
                self._step()
                await self._ended
        finally:
            self._is_busy = True
            if self._saving is not None and not self._saving.done():
                await asyncio.wait([self._saving])  # no thread may write to a closed store
            self._store.close()

    def _dial(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            peer = Peer(self._runtime, self._addresses[number], self._on_response)
            self._peers[number] = peer
            self._runtime.spawn(peer.run(), name=f"peer-{number}")

    def _step(self) -> None:
        """Pass all events to the replica and carry out its `Ready`."""
        try:
            ready = self.take_ready()
            if not ready.needs_disk:
                self.publish(ready)
                return
            self._is_busy = True
            if self._runtime.buggify("sync-waits", 0.05):
                wait_s = self._runtime.random.uniform(0, 0.1)
                asyncio.get_running_loop().call_later(wait_s, self.save, ready)
            else:
                self.save(ready)
        except Exception as error:
            self._fail(error)

    def take_ready(self) -> Ready:
        """Pass all messages and the time to the replica, and return its `Ready`."""
        replica, inbox, clock_ns = self.replica, self._inbox, self._clock_ns
        assert replica is not None
        now_ms = clock_ns() // 1_000_000
        while inbox:
            message, sender = inbox.popleft()
            if type(message) in PEER_MESSAGES:
                replica.on_message(message, now_ms)  # type: ignore[arg-type]
            elif type(message) is ProduceRequest:
                replica.on_produce(sender, message.value, now_ms)
            elif type(message) is ReadRequest:
                _answer_read(replica, message.offset, sender)
        if now_ms >= replica.deadline_ms:
            replica.on_tick(now_ms)
        if self._alarm_ms > replica.deadline_ms:
            self._set_alarm(replica.deadline_ms)
        return replica.take_ready()

    def save(self, ready: Ready) -> None:
        """Start to make `ready` durable; it is published afterwards."""
        self._unpublished = ready
        self._saving = saving = self._runtime.run_blocking(self._store.save, ready)
        saving.add_done_callback(self._saved)

    def _saved(self, saving: asyncio.Future[None]) -> None:
        """Publish what is durable now, and go on with the events that came meanwhile."""
        if saving.cancelled() or (self._ended.done() and saving.exception() is None):
            return
        try:
            saving.result()
            self.publish(self._unpublished)
        except Exception as error:
            self._fail(error)
            return
        self._is_busy = False
        if self._inbox or self._alarm is None:
            self._step()

    def _fail(self, error: Exception) -> None:
        """Stop sending and let `run` raise the error: the disk is unreliable, or there is a bug."""
        self._is_busy = True
        if not self._ended.done():
            self._ended.set_exception(error)

    def publish(self, ready: Ready) -> None:
        """Send all messages and answers, which may be sent now."""
        message, frame = None, b""
        for number, each in ready.messages:
            if each is not message:  # one message to all is encoded once
                message, frame = each, encode_frame(each)
            # Requests go out on our own connections; responses return on the request's connection.
            ways = self._peers if type(each) in REQUESTS else self._asked_by
            ways[number].send(frame)
        for client, response in ready.answers:
            assert isinstance(client, Connection)
            client.send(encode_frame(response))

    def _set_alarm(self, deadline_ms: int) -> None:
        """Set the timer that wakes the replica at its deadline.

        Deadlines mostly move later. A timer that fires early does no harm, so it stays.
        """
        if self._alarm is not None:
            self._alarm.cancel()
        delay_s = deadline_ms / 1000 - self._clock_ns() / 1e9
        if self._runtime.buggify("early-alarm"):
            delay_s = self._runtime.random.uniform(0, delay_s)
        self._alarm_ms = deadline_ms
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_ms = None, NEVER_MS
        if not self._is_busy:
            self._step()

    def _accept(self) -> Connection:
        return Connection(self._on_request)

    def _on_request(self, message: Message, sender: Connection) -> None:
        if type(message) is AppendRequest:
            self._asked_by[message.leader] = sender
        elif type(message) is VoteRequest:
            self._asked_by[message.candidate] = sender
        elif type(message) not in CLIENT_REQUESTS:
            raise MalformedMessage("not a request", message=type(message).__name__)
        self._inbox.append((message, sender))
        if not self._is_busy:
            self._step()

    def _on_response(self, message: Message, sender: Connection) -> None:
        if type(message) not in RESPONSES:
            raise MalformedMessage("not a response", message=type(message).__name__)
        self._inbox.append((message, sender))
        if not self._is_busy:
            self._step()


def _answer_read(replica: Replica, offset: int, reader: Connection) -> None:
    answer = ReadResponse(high_watermark=replica.high_watermark, records=replica.read(offset))
    reader.send(encode_frame(answer))
