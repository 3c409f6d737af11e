"""A broker over its sockets plays the broker of a script: Apache Kafka, or ours.

A member has as many connections as it has requests that wait, for a broker reads nothing more from
a connection whose request is parked.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

from moldau.errors.codes import ErrorCode
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.peers.eventually import eventually

PATIENCE_S: Final = 10.0
QUIET_S: Final = 0.05
_SIZE_BYTES: Final = 4


class Line:
    """One connection."""

    def __init__(self, port: int, label: str) -> None:
        self.label = label
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._protocol = ClientConnection(label)
        self._received = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_idle(self) -> bool:
        return not self._protocol.in_flight

    def send(self, request: Request, version: int) -> None:
        parts = self._protocol.send(request, version)
        self._socket.sendall(b"".join(map(bytes, parts)))

    def receive(self) -> Response | None:
        """What has come, if it is a whole answer."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError(f"the broker closed the connection of {self.label}")
        self._received += data
        size = int.from_bytes(self._received[:_SIZE_BYTES], "big")
        if len(self._received) < _SIZE_BYTES + size:
            return None
        frame = bytes(self._received[_SIZE_BYTES : _SIZE_BYTES + size])
        del self._received[: _SIZE_BYTES + size]
        return self._protocol.receive(memoryview(frame)).response

    def close(self) -> None:
        self._socket.close()


class WirePeer:
    """A broker behind a port; each play has a group of its own."""

    def __init__(
        self, port: int, group_id: str, restart: Callable[[], object] | None = None
    ) -> None:
        """`restart` stops the broker and starts it on its files; it keeps its port."""
        self.group_id = group_id
        self._port = port
        self._restart = restart
        self._lines: list[Line] = []
        self._arrived: list[tuple[str, Response]] = []
        self._selector = selectors.DefaultSelector()

    def ask(self, label: str, request: Request, version: int) -> None:
        self._line(label).send(request, version)

    def collect(self, count: int, wait_ms: int) -> list[tuple[str, Response]]:
        """The answers that come in that time, and in a while more if fewer than `count` came."""
        start = time.monotonic()
        self._listen(start + wait_ms / 1000)
        deadline = start + wait_ms / 1000 + PATIENCE_S
        while len(self._arrived) < count and time.monotonic() < deadline:
            self._listen(time.monotonic() + QUIET_S)
        self._listen(time.monotonic() + QUIET_S)
        arrived, self._arrived = self._arrived, []
        return arrived

    def disturb(self, command: str, argument: str) -> None:
        assert command == "fail-over", f"cannot {command} here"
        assert self._restart is not None, "this broker is not to be restarted"
        while self._lines:
            line = self._lines.pop()
            self._selector.unregister(line)
            line.close()
        self._restart()
        eventually(lambda: _has_coordinator(self._port), within_s=60)

    def close(self) -> None:
        for line in self._lines:
            line.close()
        self._selector.close()

    def _line(self, label: str) -> Line:
        for line in self._lines:
            if line.label == label and line.is_idle:
                return line
        line = Line(self._port, label)
        self._lines.append(line)
        self._selector.register(line, selectors.EVENT_READ)
        return line

    def _listen(self, until: float) -> None:
        while (left_s := until - time.monotonic()) > 0:
            for key, _events in self._selector.select(left_s):
                line = key.fileobj
                assert isinstance(line, Line)
                response = line.receive()
                if response is not None:
                    self._arrived.append((line.label, response))


def ask_once(port: int, request: Request, version: int) -> Response:
    """One request on a connection of its own."""
    line = Line(port, "setup")
    try:
        line.send(request, version)
        while True:
            response = line.receive()
            if response is not None:
                return response
    finally:
        line.close()


def prepare(port: int, topics: Iterable[str]) -> None:
    """The topics are there, and groups have a coordinator (of one partition, so that one answers
    for all) that has loaded."""
    new = [
        CreatableTopic(
            name=each, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for each in topics
    ]
    made = ask_once(port, CreateTopicsRequest(topics=new, timeout_ms=10_000), 5)
    assert isinstance(made, CreateTopicsResponse)
    for topic in made.topics:
        assert topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    eventually(lambda: _has_coordinator(port), within_s=60)


def _has_coordinator(port: int) -> bool:
    found = ask_once(port, FindCoordinatorRequest(key="g", key_type=0), 2)
    assert isinstance(found, FindCoordinatorResponse)
    described = ask_once(port, DescribeGroupsRequest(groups=["g"]), 0)
    assert isinstance(described, DescribeGroupsResponse)
    return not found.error_code and not described.groups[0].error_code
