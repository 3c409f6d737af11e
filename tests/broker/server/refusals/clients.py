"""What the clients of the table do, and how they see its end.

Each connects from an address of its own (127.1.x.y), so that the log lines about it can be told
from those about the others.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from moldau.client import Admin
from moldau.errors.codes import ErrorCode
from moldau.link.connection import Untrusted
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.protocol.scram import ScramMechanism, salted_password

HOST: Final = "127.0.0.1"
CLOSED: Final = "closed"
SECONDS: Final = 180.0
"""How long the broker may take: a bound for busy machines, and no wait if all is well."""

Message: TypeAlias = "bytes | Callable[[list[bytes]], bytes]"
"""A message of a mechanism; a function makes it from the broker's answers."""


@dataclass(frozen=True)
class Broker:
    """The broker as its clients see it."""

    ports: dict[str, int]
    folder: str


class Closed(Exception):
    """The broker has hung up."""


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.protocol = ClientConnection("refused")

    async def ask(self, request: Request, version: int) -> Any:
        self.writer.writelines(self.protocol.send(request, version))
        return self.protocol.receive(memoryview(await self.frame())).response

    async def frame(self) -> bytes:
        try:
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            raise Closed from None

    async def until_closed(self) -> bytes:
        """Return what comes before the broker hangs up."""
        try:
            return await self.reader.read()
        except (ConnectionError, ssl.SSLError):
            return b""


async def connect(
    at: Broker, listener: str, source: str, tls: ssl.SSLContext | None = None
) -> Wire:
    name = None if tls is None else "localhost"
    reader, writer = await asyncio.open_connection(
        HOST, at.ports[listener], local_addr=(source, 0), ssl=tls, server_hostname=name
    )
    return Wire(reader, writer)


@dataclass(frozen=True)
class Login:
    """Log in with these messages, after requests that are wrong there, if any."""

    mechanism: str
    messages: Sequence[Message]
    after: Sequence[tuple[Request, int]] = ()

    async def run(self, at: Broker, listener: str, source: str) -> str:
        tls = trusting(at) if listener.endswith("SSL") else None
        wire = await connect(at, listener, source, tls)
        try:
            outcome = await self._talk(wire)
            if outcome != "let in":
                assert await wire.until_closed() == b"", "nothing follows a refusal"
            return outcome
        except Closed:
            return CLOSED
        finally:
            wire.writer.transport.abort()

    async def _talk(self, wire: Wire) -> str:
        answer = await wire.ask(SaslHandshakeRequest(mechanism=self.mechanism), 1)
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        replies: list[bytes] = []
        for message in self.messages:
            data = message if isinstance(message, bytes) else message(replies)
            answer = await wire.ask(SaslAuthenticateRequest(auth_bytes=data), 2)
            if answer.error_code:
                return ErrorCode(answer.error_code).name
            replies.append(bytes(answer.auth_bytes))
        for request, version in self.after:
            answer = await wire.ask(request, version)
            code = getattr(answer, "error_code", 0)
            if code:
                return ErrorCode(code).name
        return "let in"


@dataclass(frozen=True)
class Requests:
    """Send these, in order; the outcome is the first error, or the end."""

    requests: Sequence[tuple[Request, int]]

    async def run(self, at: Broker, listener: str, source: str) -> str:
        wire = await connect(at, listener, source)
        try:
            for request, version in self.requests:
                answer = await wire.ask(request, version)
                code = getattr(answer, "error_code", 0)
                if code:
                    await wire.until_closed()
                    return ErrorCode(code).name
            return "let in"
        except Closed:
            return CLOSED
        finally:
            wire.writer.transport.abort()


@dataclass(frozen=True)
class Raw:
    """Send bytes without TLS, and perhaps nothing more."""

    data: bytes
    is_end: bool = False
    """Whether the client says that nothing follows."""

    async def run(self, at: Broker, listener: str, source: str) -> str:
        wire = await connect(at, listener, source)
        try:
            with suppress(ConnectionError):
                wire.writer.write(self.data)
                if self.is_end:
                    wire.writer.write_eof()
            await wire.until_closed()
            return CLOSED
        finally:
            wire.writer.transport.abort()


@dataclass(frozen=True)
class Tls:
    """Make a handshake with a context, then send bytes."""

    context: Callable[[Broker], ssl.SSLContext]
    data: bytes = b""
    is_broken: bool = False
    """Whether the bytes go past the encryption."""

    async def run(self, at: Broker, listener: str, source: str) -> str:
        try:
            wire = await connect(at, listener, source, self.context(at))
        except (ssl.SSLError, ConnectionError):
            return CLOSED
        try:
            if self.is_broken:
                with _plain(wire.writer.get_extra_info("socket")) as below:
                    await asyncio.get_running_loop().sock_sendall(below, self.data)
            elif self.data:
                wire.writer.write(self.data)
            await wire.until_closed()
            return CLOSED
        finally:
            wire.writer.transport.abort()


def _plain(shown: Any) -> socket.socket:
    """Return a second descriptor of a transport's socket: the transport lends only the first."""
    twin = socket.fromfd(shown.fileno(), shown.family, shown.type)
    twin.setblocking(False)
    return twin


@dataclass(frozen=True)
class OurClient:
    """Our client, which must not trust this broker, or is refused."""

    given: dict[str, str]

    async def run(self, at: Broker, listener: str, source: str) -> str:
        given = {"bootstrap.servers": f"localhost:{at.ports[listener]}"}
        files = {name: text.replace("FOLDER", at.folder) for name, text in self.given.items()}
        try:
            async with Admin({**given, **files}):
                return "let in"
        except Untrusted:
            return "untrusted"


def trusting(at: Broker, **files: str) -> ssl.SSLContext:
    """Return a client's context, with its certificate if `own` names one."""
    made = ssl.create_default_context(cafile=f"{at.folder}/ca.pem")
    if "own" in files:
        made.load_cert_chain(f"{at.folder}/{files['own']}")
    return made


# Messages of SCRAM


def first(user: str = "alice", nonce: str = "abcdef", header: str = "n,,") -> bytes:
    return f"{header}n={user},r={nonce}".encode()


@dataclass(frozen=True)
class LastMessage:
    """The last message of a client that knows the password and changes one thing."""

    mechanism: ScramMechanism
    password: str
    bare_first: bytes = b"n=alice,r=abcdef"
    nonce: Callable[[str], str] = lambda nonce: nonce
    binding: bytes = b"biws"
    change: Callable[[bytes], bytes] = lambda data: data
    iterations: Callable[[int], int] = lambda count: count

    def __call__(self, replies: list[bytes]) -> bytes:
        found = re.fullmatch(r"r=([^,]+),s=([^,]+),i=(\d+)", replies[0].decode())
        assert found is not None
        mechanism, digest = self.mechanism, self.mechanism.digest
        bare = b"c=" + self.binding + b",r=" + self.nonce(found[1]).encode()
        count = self.iterations(int(found[3]))
        salted = salted_password(mechanism, self.password, base64.b64decode(found[2]), count)
        client_key = hmac.digest(salted, b"Client Key", digest)
        signed = self.bare_first + b"," + replies[0] + b"," + bare
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return self.change(bare + b",p=" + base64.b64encode(proof))
