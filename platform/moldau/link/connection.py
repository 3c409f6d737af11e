"""One connection to a broker: sends requests, and passes responses to their callers in order.

`Connection.open` connects, to the first address behind a name that accepts, and asks the broker for
its versions; `ask` sends a request in the highest version that both sides support and calls back
with the response, and `request` is the same to be awaited.

Invariants: each request that expects a response gets exactly one call: with the response, or with a
KafkaError (NETWORK_EXCEPTION if the connection ended, REQUEST_TIMED_OUT if the broker did not
respond in time; that also ends the connection, because responses come in order and no later one
could arrive). A request that expects none counts as in flight until the network has accepted it; if
the network accepts nothing for that time, the connection ends, too. After `is_closed` nothing is
sent. No task is needed: responses are decoded inside `buffer_updated`, and one timer covers all
requests.

The callback for the response, `on_answer`, is called from within the event loop's read and must
neither block nor raise; the same applies to `on_written` of a request without a response, which is
called from within a write. A callback that raises has a bug: the loop's exception handler gets it,
and the connection ends, so that all other callers are notified.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from moldau.deferred import dataclass
from moldau.errors import MalformedMessage, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.foreign import foreign_server
from moldau.link.login.renewal import DelayedRequest, Renewal
from moldau.link.security import Security
from moldau.protocol.api_versions import IDENTITY_SINCE, SOFTWARE, UNKNOWN_NODE
from moldau.protocol.connection import ClientConnection, InFlight
from moldau.protocol.declare import Request, Response
from moldau.protocol.framing import (
    GROWTH_OF_TRUSTED,
    MAX_FRAME_BYTES,
    FrameReader,
    shared_buffer,
)
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.negotiation import PeerVersions
from moldau.runtime import Runtime
from moldau.runtime.forks import leave_to_parent
from moldau.runtime.timeouts import timeout

R = TypeVar("R", bound=Response)
T = TypeVar("T")

OnAnswer = Callable[["Response | KafkaError"], None]
OnWritten = Callable[["KafkaError | None"], None]

SOFTWARE_VERSION: Final = "0.2"

# Responses whose records stay views of the frame: Fetch, FetchSnapshot, ShareFetch.
_HOLD_VIEWS: Final = frozenset((1, 59, 78))
_ANONYMOUS_VERSION: Final = IDENTITY_SINCE - 1
"""The version of ApiVersions that needs no broker to be named; older clusters answer it, too."""
_LOOK_S: Final = 0.05
"""How often unwritten requests are checked: not every transport reports that all is written."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options that all connections of a client share."""

    client_id: str | None = None
    request_timeout_s: float = 30.0
    setup_timeout_s: float = 10.0
    frame_bytes_max: int = MAX_FRAME_BYTES
    security: Security | None = None
    """Encryption and login. None: plain text without a login."""


class Identity(NamedTuple):
    """The broker that a client means by an address (KIP-1242)."""

    cluster_id: str
    node_id: int


class Untrusted(KafkaError):
    """A broker's certificate is not trusted. Retrying does not help, though the code allows it."""

    @property
    def retriable(self) -> bool:
        return False


class _Waiting(NamedTuple):
    """The deadline and callback of a request, kept in the protocol's in-flight queue."""

    deadline: float
    on_answer: OnAnswer


class Connection(asyncio.BufferedProtocol):
    """The client's end of a connection; created by `open`."""

    def __init__(
        self,
        runtime: Runtime,
        address: Address,
        options: ConnectionOptions,
        buffer: memoryview | None = None,
        identity: Identity | None = None,
    ) -> None:
        """`buffer` is a receive buffer that connections of one event loop may share. `identity` is
        the broker that must be at the address; None takes any."""
        self.address = address
        self.identity = identity
        self.options = options
        self.versions = PeerVersions(())
        self.features: dict[str, int] = {}
        self.supported_features: dict[str, tuple[int, int]] = {}
        self.is_closed = False
        self.is_closed_here = False
        """Whether this side has closed it."""
        self.last_used = runtime.clock.monotonic()
        self.on_close: Callable[[Connection], None] | None = None
        self.has_told = False
        """Whether a request without a response was sent on it."""
        self._clock = runtime.clock
        self._buffer = shared_buffer() if buffer is None else buffer
        self._frames = FrameReader(self._buffer, options.frame_bytes_max, growth=GROWTH_OF_TRUSTED)
        self._protocol = ClientConnection(options.client_id)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = math.inf
        """The time of the timer; infinite while there is none."""
        self._why: KafkaError | None = None
        self._told: deque[tuple[list[Any], OnWritten]] = deque()
        """The requests without a response that are not written yet."""
        self._handed = 0
        """How many of them the transport has; of these only the last may be partly written."""
        self._is_last_whole = True
        self._unwritten_bytes = 0
        self._renewal: Renewal | None = None
        """The logins; None without any."""
        self._shrunk_at = 0.0
        """The time when the unwritten bytes last decreased, or a request was added."""

    def __repr__(self) -> str:
        return f"<Connection {self.address} in_flight={self.in_flight}>"

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        address: Address,
        options: ConnectionOptions,
        buffer: memoryview | None = None,
        identity: Identity | None = None,
    ) -> Connection:
        """Open a connection and learn the broker's versions. The addresses behind a name are tried
        one after another: each gets a share of the setup time for itself, and then continues beside
        the next one, so that an address that swallows everything does not delay the others, or
        other brokers.

        Raise KafkaError (NETWORK_EXCEPTION, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION) with the
        address if no connection can be made, and REBOOTSTRAP_REQUIRED if a broker is there that is
        not the one of `identity`.
        """
        if address.fault is not None:
            raise _cannot_connect(address, address.fault)
        hosts = await _hosts_behind(runtime, address, options)

        async def reach(host: str) -> Connection:
            connection = cls(runtime, address, options, buffer, identity)
            await connection._set_up(runtime, host, until - runtime.clock.monotonic())
            return connection

        until = runtime.clock.monotonic() + options.setup_timeout_s
        if len(hosts) == 1:
            return await reach(hosts[0])
        return await _first_of(runtime, address, hosts, reach, until)

    async def _set_up(self, runtime: Runtime, host: str, timeout_s: float) -> None:
        address = self.address
        is_ready = False
        security = self.options.security
        try:
            if security is not None and security.credentials is not None:
                await security.credentials.prepare()
            async with timeout(timeout_s):
                await _connect(self, runtime, host)
                await self.learn_versions()
                if security is not None and security.credentials is not None:
                    ask = partial(_ask_at_login, self)
                    self._renewal = Renewal(runtime, security, address, ask, self._on_renewed)
                    await self._renewal.log_in()
            if self.is_closed:  # by bytes behind the response, before this task continued
                raise self._ended()
            is_ready = True
        except TimeoutError:
            reason = "the broker did not answer while the connection was set up"
            raise _late(address, timeout_s, reason) from None
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(address, error) from error
        except OSError as error:
            raise _cannot_connect(address, _told(error, self.options.security)) from error
        finally:
            if not is_ready:
                self.close()

    def _on_renewed(self, error: KafkaError | None) -> None:
        """Send what was put aside during a login; end the connection if the login failed."""
        renewal = self._renewal
        if self.is_closed or renewal is None:
            return
        if error is not None:
            self._end(error)
            return
        now = self._clock.monotonic()
        for each in renewal.take_aside():
            try:
                left_s = max(0.0, each.deadline - now)
                self.ask(each.request, each.on_answer, version=each.version, timeout_s=left_s)
            except KafkaError as failure:
                self._call(each.on_answer, failure)
        if self._told:
            self._hand_over()

    async def learn_versions(self) -> None:
        """Ask in our newest version (KIP-511); a broker without it names its own versions. May be
        asked again: features change while a connection lasts."""
        newest = _ANONYMOUS_VERSION if self.identity is None else IDENTITY_SINCE
        answer = await _ask_versions(self, newest)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = PeerVersions(answer.api_keys).version(ApiVersionsRequest)
            answer = await _ask_versions(self, version)
        if answer.error_code:
            raise KafkaError(
                answer.error_code, "the broker refuses ApiVersions", address=str(self.address)
            )
        self.versions = PeerVersions(answer.api_keys)
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}
        self.supported_features = {
            each.name: (each.min_version, each.max_version) for each in answer.supported_features
        }

    # Requests

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for a response or, without one, to be written."""
        count = len(self._protocol.in_flight) + len(self._told)
        if self._renewal is not None and self._renewal.aside:
            count += len(self._renewal.aside)
        return count

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the transport has and the network has not accepted yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def version_of(self, request: type[Request], *, at_most: int | None = None) -> int:
        """Return the version to use. Raise KafkaError(UNSUPPORTED_VERSION) with the broker."""
        try:
            return self.versions.version(request, at_most=at_most)
        except KafkaError as error:
            raise KafkaError(error.code, **error.context, broker=str(self.address)) from None

    def ask(
        self,
        request: Request,
        on_answer: OnAnswer,
        *,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Send a request; `on_answer` is called once, never before this returns.

        `timeout_s` includes the time for earlier requests. Without it a request has the usual time,
        but is not late before the earlier ones are: responses come in order.

        Raise KafkaError if the connection is closed or the broker lacks the API.
        """
        if self._renewal is not None and self._renewal.aside is not None:
            self.version_of(type(request))
            deadline = self._deadline(timeout_s)
            self._renewal.aside.append(DelayedRequest(request, on_answer, version, deadline))
            return
        deadline = self._deadline(timeout_s)
        self._write(self._encode(request, version, _Waiting(deadline, on_answer)))
        if deadline < self._looks_at:
            self._watch()

    def tell(self, request: Request, on_written: OnWritten, *, version: int | None = None) -> None:
        """Send a request without a response, such as a produce with acks=0. `on_written` is called
        once, never before this returns: when the network has accepted all of it, or with the error
        if it has not.

        Raise KafkaError if the connection is closed or the broker lacks the API.
        """
        self._told.append((self._encode(request, version, None), on_written))
        self.has_told = True
        self._hand_over()

    def _hand_over(self) -> None:
        """Pass requests without a response to the transport one by one, each when the transport has
        written everything. So for each it is known whether it was written whole, whenever the
        connection ends."""
        while (
            self._handed < len(self._told)
            and (self._renewal is None or self._renewal.aside is None)
            and self._has_written_all()
        ):
            self._write(self._told[self._handed][0])
            self._handed += 1
            self._is_last_whole = self._has_written_all()
        self._unwritten_bytes, self._shrunk_at = self.unsent_bytes, self.last_used
        if self._handed and self._is_last_whole:
            asyncio.get_running_loop().call_soon(self._look_at_the_told)
        else:
            self._watch()

    async def request(
        self,
        request: Request,
        response: type[R],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request and return its response, of the class `response`."""
        answer = await _answer(self.ask, request, version, timeout_s)
        assert isinstance(answer, response)
        return answer

    def _encode(self, request: Request, version: int | None, waiting: _Waiting | None) -> list[Any]:
        if self.is_closed:
            raise self._ended()
        if version is None:
            version = self.version_of(type(request))
        return self._protocol.send(
            request, version, tag=waiting, expects_answer=waiting is not None
        )

    def _write(self, parts: list[Any]) -> None:
        assert self._transport is not None
        self.last_used = self._clock.monotonic()
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    def _deadline(self, timeout_s: float | None) -> float:
        now = self._clock.monotonic()
        if timeout_s is not None:
            return now + timeout_s
        deadline = now + self.options.request_timeout_s
        in_flight = self._protocol.in_flight
        if not in_flight:
            return deadline
        ahead = cast(_Waiting, in_flight[-1].tag).deadline
        return ahead if ahead > deadline else deadline

    # Timeouts

    def _watch(self) -> None:
        """Set the timer to the earliest deadline, of all requests in flight: those are few. A
        response leaves the timer as it is: no later request has an earlier deadline, and a timer
        that ends in vain is set again. (Resetting it with each request costs a tenth of the
        request.)"""
        if self._timer is not None:
            self._stop_watching()
        if not self.in_flight or self.is_closed:
            return
        deadlines = [cast(_Waiting, each.tag).deadline for each in self._protocol.in_flight]
        now = self._clock.monotonic()
        if self._told:
            deadlines.append(now + _LOOK_S)
        self._looks_at = min(deadlines)
        delay = max(0.0, self._looks_at - now)
        self._timer = asyncio.get_running_loop().call_later(delay, self._look_at_the_clock)

    def _stop_watching(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._timer = None
        self._looks_at = math.inf

    def _look_at_the_clock(self) -> None:
        now = self._clock.monotonic()
        self._look_at_the_told()
        late = any(cast(_Waiting, each.tag).deadline <= now for each in self._protocol.in_flight)
        if late:
            self._end_late("the broker leaves a request without an answer")
        elif self._told and now - self._shrunk_at >= self.options.request_timeout_s:
            self._end_late("the network takes nothing more of what is sent to the broker")
        else:
            self._watch()

    def _end_late(self, reason: str) -> None:
        broker = str(self.address)
        code = ErrorCode.REQUEST_TIMED_OUT
        self._end(KafkaError(code, reason, broker=broker, in_flight=self.in_flight))

    def _has_written_all(self) -> bool:
        transport = self._transport
        return transport is not None and not (self.unsent_bytes or transport.is_closing())

    def _look_at_the_told(self) -> None:
        """Report the requests without a response that are written now."""
        if not self._told or self._transport is None or self._transport.is_closing():
            return
        unwritten_bytes = self.unsent_bytes
        if unwritten_bytes < self._unwritten_bytes:
            self._shrunk_at = self._clock.monotonic()
        self._unwritten_bytes = unwritten_bytes
        if not unwritten_bytes:
            self._is_last_whole = True
        for on_written in self._written():
            self._call(on_written, None)
        if self._handed < len(self._told) and not self.is_closed:
            self._hand_over()

    def _written(self) -> list[OnWritten]:
        """Remove the requests that are completely written, and return their callbacks."""
        count = self._handed - (not self._is_last_whole)
        self._handed -= count
        return [self._told.popleft()[1] for _ in range(count)]

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: the connection is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)  # `resume_writing` means that nothing is left
        if self.is_closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Process the next `nbytes` in the buffer. An error from a bug in decoding goes to the
        transport, which reports it and closes the connection."""
        if self.is_closed:
            return
        try:
            for frame in self._frames.received(nbytes):
                self._take(frame)
                if self._transport is None or self._transport.is_closing():
                    return
        except MalformedMessage as error:
            server = foreign_server(error.context.get("size"))
            reason = "the broker sent what is no answer" if server is None else server
            why = {"why": str(error)} if server is None else {}
            code = ErrorCode.NETWORK_EXCEPTION
            self._end(KafkaError(code, reason, broker=str(self.address), **why))

    def _take(self, frame: memoryview) -> None:
        waiting = self._protocol.in_flight
        if waiting and waiting[0].key in _HOLD_VIEWS and frame.obj is self._buffer.obj:
            frame = memoryview(bytes(frame))
        self.last_used = self._clock.monotonic()
        answer = self._protocol.receive(frame)
        self._call(cast(_Waiting, answer.request.tag).on_answer, answer.response)

    def resume_writing(self) -> None:
        """Check the unwritten requests: the network has accepted everything."""
        self._look_at_the_told()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight: the connection has ended."""
        self._transport = None
        why = "the connection ended" if exc is None else str(exc)
        security = self.options.security
        if not self.versions.by_key and (security is None or not security.is_encrypted):
            why = f"{why} at the first request; {_WITHOUT_TLS}"
        self._end(KafkaError(ErrorCode.NETWORK_EXCEPTION, broker=str(self.address), why=why))

    def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self.is_closed_here = not self.is_closed
        self._end(
            KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                "the connection was closed here",
                broker=str(self.address),
            )
        )

    def forked(self) -> None:
        """Detach from the socket in a child process: the connection belongs to the parent."""
        if self._transport is not None:
            leave_to_parent(self._transport.get_extra_info("socket"))

    def _ended(self) -> KafkaError:
        assert self._why is not None
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, self._why.reason, **self._why.context)

    def _call(self, step: Callable[[T], None], argument: T) -> None:
        """Call a callback that must not raise; if it does, end the connection, and return."""
        try:
            step(argument)
        except Exception as bug:
            self._break_off(bug)

    def _break_off(self, bug: Exception) -> None:
        """End the connection after a bug, so that no caller waits in vain, and report the bug."""
        self._end(
            KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                "a bug of the client has ended the connection",
                broker=str(self.address),
                why=repr(bug),
            )
        )
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a bug has ended {self!r}", "exception": bug, "protocol": self}
        )

    def _end(self, why: KafkaError) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._why = without_frames(why)
        if self._timer is not None:
            self._stop_watching()
        if self._transport is not None:
            self._transport.abort()
        if self.on_close is not None:
            self._call(self.on_close, self)
        for on_written in self._written():
            self._call(on_written, None)
        while self._told:
            self._call(self._told.popleft()[1], why)
        lost: list[InFlight] = self._protocol.lose()
        for each in lost:
            self._call(cast(_Waiting, each.tag).on_answer, why)
        for waiting in () if self._renewal is None else self._renewal.stop():
            self._call(waiting.on_answer, why)


async def _ask_versions(connection: Connection, version: int) -> ApiVersionsResponse:
    meant = connection.identity
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE,
        client_software_version=SOFTWARE_VERSION,
        cluster_id=None if meant is None else meant.cluster_id,
        node_id=UNKNOWN_NODE if meant is None else meant.node_id,
    )
    return cast(ApiVersionsResponse, await _answer(connection.ask, request, version, None))


def _answer(
    ask: Callable[..., None], request: Request, version: int | None, timeout_s: float | None
) -> asyncio.Future[Response]:
    """Send a request by `ask`, and return its response once it is there."""
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def settle(answer: Response | KafkaError) -> None:
        if future.done():
            return
        if isinstance(answer, KafkaError):
            future.set_exception(without_frames(answer))
        else:
            future.set_result(answer)

    ask(request, settle, version=version, timeout_s=timeout_s)
    return future


async def _ask_at_login(connection: Connection, request: Request, at_most: int) -> Response:
    """Send a request of a login, which is never put aside."""
    version = connection.version_of(type(request), at_most=at_most)
    renewal = connection._renewal
    assert renewal is not None
    aside, renewal.aside = renewal.aside, None
    try:
        answer = _answer(connection.ask, request, version, None)
    finally:
        renewal.aside = aside
    return await answer


async def _connect(connection: Connection, runtime: Runtime, host: str) -> None:
    security, address = connection.options.security, connection.address
    context = None if security is None else security.context()
    if context is None:
        await runtime.network.connect(lambda: connection, host, address.port)
    else:
        await runtime.network.connect(
            lambda: connection, host, address.port, tls=context, server_name=address.host
        )


async def _hosts_behind(
    runtime: Runtime, address: Address, options: ConnectionOptions
) -> list[str]:
    """Return the addresses that the resolver has for a name, in its order."""
    try:
        async with timeout(options.setup_timeout_s):
            found = await runtime.network.resolve(address.host, address.port)
    except TimeoutError:
        reason = "the resolver does not say where the host is"
        raise _late(address, options.setup_timeout_s, reason) from None
    except OSError as error:
        raise _cannot_connect(address, error.strerror or str(error)) from error
    return [host for host, _ in found]


async def _first_of(
    runtime: Runtime,
    address: Address,
    hosts: Sequence[str],
    reach: Callable[[str], Coroutine[Any, Any, Connection]],
    until: float,
) -> Connection:
    """Return the first connection that succeeds. The next attempt starts when one fails, or has
    used its share of the time. Nothing is awaited after a success: a cancel would leave the
    connection open."""
    begun: dict[asyncio.Task[Connection], str] = {}
    failures: dict[str, KafkaError] = {}
    left = deque(hosts)
    try:
        while left or begun:
            if left:
                host = left.popleft()
                begun[runtime.spawn(reach(host), name=f"connect {host}", reported=False)] = host
            left_s = max(0.0, until - runtime.clock.monotonic())
            share_s = left_s / (len(left) + 1) if left else None
            await asyncio.wait(begun, timeout=share_s, return_when=asyncio.FIRST_COMPLETED)
            for task in [each for each in begun if each.done()]:
                try:
                    connection = task.result()
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    failures[begun.pop(task)] = without_frames(error)
                else:
                    del begun[task]
                    return connection
    finally:
        for task in begun:
            task.add_done_callback(_close_late)
            task.cancel()
    raise _out_of_reach(address, {host: failures[host] for host in hosts})


def _close_late(task: asyncio.Task[Connection]) -> None:
    """Close a connection that is not needed: another one was first, or the caller was cancelled."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _out_of_reach(address: Address, failures: dict[str, KafkaError]) -> KafkaError:
    """Return the only failure, or for several addresses an error with the failure of each."""
    if len(failures) == 1:
        return next(iter(failures.values()))
    why = "; ".join(
        f"{host}: {error.context.get('why', error.reason)}" for host, error in failures.items()
    )
    return _cannot_connect(address, why)


def _late(address: Address, timeout_s: float, reason: str) -> KafkaError:
    facts = {"address": str(address), "seconds": round(timeout_s, 3)}
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, reason, **facts)


_WITHOUT_TLS: Final = "a listener with TLS wants security.protocol=SSL or SASL_SSL"


def _cannot_connect(address: Address, why: str) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, "cannot connect", address=str(address), why=why)


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> KafkaError:
    reason = (
        "the broker's certificate is not trusted: give the authority that signed it, as "
        "ssl.truststore.location"
    )
    facts = {"address": str(address), "why": error.verify_message or str(error)}
    return Untrusted(ErrorCode.NETWORK_EXCEPTION, reason, **facts)


def _told(error: OSError, security: Security | None) -> str:
    """Return why no connection could be made, with advice if TLS was not understood."""
    is_tls = security is not None and security.is_encrypted
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "this port does not speak TLS: set security.protocol to what the listener speaks"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if (
        is_tls
        and isinstance(error, ConnectionError)
        and not isinstance(error, ConnectionRefusedError)
    ):
        return (
            "the connection ended in the TLS handshake: does this listener speak TLS, and does it "
            "want a certificate?"
        )
    return error.strerror or str(error)
