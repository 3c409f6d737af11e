"""Whole requests with values at their edges, over sockets, of every API in every version.

A request may be refused with any code but UNKNOWN_SERVER_ERROR, which is a bug of the broker, and
it must be answered: a connection that ends without a reason is a finding. What a connection sends
depends on the seed and its number alone, and on the names that the broker gave at the start.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from moldau.broker.api.handlers import APIS
from moldau.broker.api.service import served_versions
from moldau.errors import MalformedMessage
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request
from moldau.protocol.messages import api, request_class
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.negotiation import supported_versions
from moldau.protocol.spec import ArrayOf, StructSpec
from moldau.protocol.versions import Versions
from tests.broker.hostile.standing_state import HOST, Standing
from tests.fuzz.extremes import Extremes, batches

A_CONNECTION: Final = 12
AT_ONCE: Final = 6
ANSWER_SECONDS: Final = 1.0
AGAIN_AFTER: Final = 1_500
"""Connections after which what exists is made again: requests delete topics and end groups."""
UNKNOWN_SERVER_ERROR: Final = -1
NEVER: Final = frozenset((17, 36))
"""The login, which ends a connection that asks for none."""
PRODUCE: Final = 0
ENVELOPE: Final = 58
"""One whose content is no request ends its connection, as in Kafka: it is sent alone."""
EXAMPLES_MAX: Final = 3


class Sent(NamedTuple):
    """A request on a connection."""

    key: int
    version: int
    request: Request

    def __str__(self) -> str:
        return f"{api(self.key).name} {self.version}: {self.request!r}"[:1500]


def versions_of(listener: str) -> Mapping[int, Versions]:
    """Return the versions that a listener of a broker or of a controller serves."""
    if listener == "broker":
        found: Mapping[int, Versions] = served_versions()
    else:
        found = {
            key: versions
            for key, versions in supported_versions("controller").items()
            if key in APIS and "controller" in APIS[key].listeners
        }
    return {key: versions for key, versions in found.items() if key not in NEVER}


def unknown_errors(spec: StructSpec, message: Any) -> Iterator[str]:
    """Yield the names of the fields of a response with an error code that is a bug's."""
    for field in spec.fields:
        value = getattr(message, field.name)
        kind = field.type
        if field.name.endswith("error_code") and value == UNKNOWN_SERVER_ERROR:
            yield f"{spec.name}.{field.name}"
        elif isinstance(kind, StructSpec) and value is not None:
            yield from unknown_errors(kind, value)
        elif isinstance(kind, ArrayOf) and isinstance(kind.element, StructSpec):
            for each in value or ():
                yield from unknown_errors(kind.element, each)


class ExtremeSearch:
    """Connections to one listener of one broker."""

    def __init__(
        self,
        seed: int,
        port: int,
        listener: str,
        login: tuple[int, bytes] | None = None,
        keys: frozenset[int] = frozenset(),
    ) -> None:
        """`login` is the port for a client with few rights, and what it sends first: two requests.
        `keys` are the APIs to ask, all if there are none."""
        self.requests = self.answers = self.connections = self.answered = 0
        self.findings: list[str] = []
        self.by_api: Counter[str] = Counter()
        self._seed, self._port, self._listener, self._login = seed, port, listener, login
        self._versions = {
            key: versions
            for key, versions in versions_of(listener).items()
            if not keys or key in keys
        }
        self._standing = Standing(port)
        self._seen: Counter[str] = Counter()

    async def run(self, until: float, requests: int) -> None:
        """Send requests until a time, or that many."""

        async def work(ends: int) -> None:
            while self.connections < ends and self._goes_on(until, requests):
                await self._connect()

        while self._goes_on(until, requests):
            if self._listener == "broker":
                await self._standing.make()
            ends = self.connections + AGAIN_AFTER
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(work(ends))

    def _goes_on(self, until: float, requests: int) -> bool:
        return time.monotonic() < until and self.requests < requests

    def _requests(self, number: int) -> list[Sent]:
        random = Random(f"{self._seed}-{number}")
        names = self._standing.names
        extremes = Extremes(random, names, batches(int(time.time() * 1000)))
        found = []
        keys = list(self._versions)
        for _ in range(random.randint(1, A_CONNECTION)):
            key = random.choice(keys)
            version = random.choice(list(self._versions[key].all()))
            each = Sent(key, version, extremes.message(request_class(key).spec, version))
            if key == ENVELOPE:
                return [each]
            found.append(each)
        return found

    async def _connect(self) -> None:
        """Send what one connection sends. If the broker ends it, find the request that does so."""
        self.connections += 1
        number = self.connections
        sent = self._requests(number)
        ended = await self._send(number, sent)
        if ended is None or sent[0].key == ENVELOPE:
            return
        alone = [await self._send(number, [each]) for each in sent] if len(sent) > 1 else []
        for each in filter(None, alone or [ended]):
            self._note(number, "closed", each)
        if not any(alone or [ended]):
            self._note(number, "closed, and not by one alone", ended)

    async def _send(self, number: int, sent: Sequence[Sent]) -> Sent | None:
        """Send requests and read their answers. Return the first one without an answer if the
        broker ends the connection."""
        client = ClientConnection("fuzz")
        waiting: list[Sent] = []
        parts: list[bytes] = []
        for each in (*sent, Sent(18, 3, _last())):
            if each.key == PRODUCE and each.request.acks == 0:  # type: ignore[attr-defined]
                continue  # a failure of it is told by the end of the connection
            data = b"".join(map(bytes, client.send(each.request, each.version)))
            parts.append(data)
            waiting.append(each)
        self.requests += len(waiting)
        port, first = self._port, b""
        if self._login is not None and number % 3 == 0:
            port, first = self._login
        reader, writer = await asyncio.open_connection(HOST, port, limit=1 << 20)
        try:
            writer.write(b"".join((first, *parts)))
            async with asyncio.timeout(ANSWER_SECONDS):
                for _ in range(2 if first else 0):
                    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                while waiting:
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    self._check(number, client, await reader.readexactly(size), waiting.pop(0))
            self.answered += 1
        except TimeoutError:
            self.by_api[f"waits: {api(waiting[0].key).name}"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            return waiting[0]
        finally:
            writer.transport.abort()
        return None

    def _check(self, number: int, client: ClientConnection, frame: bytes, sent: Sent) -> None:
        self.answers += 1
        self.by_api[api(sent.key).name] += 1
        try:
            response = client.receive(frame).response
        except MalformedMessage as error:
            self._note(number, f"unreadable answer: {error}", sent)
            return
        for where in unknown_errors(type(response).spec, response):
            self._note(number, f"UNKNOWN_SERVER_ERROR in {where}", sent)
            break

    def _note(self, number: int, what: str, sent: Sent) -> None:
        kind = f"{what} {api(sent.key).name}"
        self._seen[kind] += 1
        if self._seen[kind] <= EXAMPLES_MAX:
            self.findings.append(f"connection {number}: {what}: {sent}")


def _last() -> Request:
    return ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
