"""Requests that no client sends, over sockets.

    python -m tests.broker.hostile.request_fuzz --seconds 60
    python -m tests.broker.hostile.request_fuzz --mutator extreme --requests 1000000
    python -m tests.broker.hostile.request_fuzz --mutator extreme --listener controller

There are two mutators. `broken` changes the bytes of requests, before and after the login. The
other, `extreme`, sends whole requests with values at the edges of their fields, see
`extreme_search`.

It exits with 1 if the broker does what no request may make it do. The broker is a process of its
own, with a listener that asks for a login and one that does not. Each connection sends some
requests at once, changed by `tests.fuzz.mutation`, then one that is whole, and reads until its
answer comes or the broker hangs up. The seeds are every request in every version, about topics and
groups that exist. The client may do anything to them, and nothing to the cluster: a request that
is allowed to end the broker is no finding.

Findings: the process ends, its log tells of an exception that was not expected, its memory or its
log grows with the number of requests, or it does not serve afterwards. A whole request is answered
as well, and never with UNKNOWN_SERVER_ERROR; its client may do anything to the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from moldau.broker.api.service import served_versions
from moldau.client.sync import Acl, AclOperation, AclResource, Admin, NewTopic, SecurityAdmin
from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages import request_class
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.records import encode_batch
from moldau.runtime.node_processes import free_ports
from tests.broker.hostile.extreme_search import ExtremeSearch
from tests.broker.main.processes import BrokerProcess, finished
from tests.fuzz.messages import VALUES, full
from tests.fuzz.mutation import mutants

HOST: Final = "127.0.0.1"
TOPIC: Final = "orders"
A_CONNECTION: Final = 12
AT_ONCE: Final = 8
ANSWER_SECONDS: Final = 2.0
MEMORY_BYTES_MAX: Final = 256 << 20
LOG_BYTES_MAX: Final = 1 << 20
LOG_BYTES_A_SECOND: Final = 16 << 10
UNEXPECTED: Final = ("Traceback", " ERROR ", "request failed")
BROKEN, EXTREME = "broken", "extreme"
BROKER, CONTROLLER = "broker", "controller"
NO_END: Final = 1 << 62
A_DAY: Final = 86_400.0
WARM_SECONDS_MAX: Final = 60.0
LAST: Final = 99_999
"""The correlation id of the request that ends a connection."""
USER, PASSWORD = "fuzz", "fuzz-password"  # of a broker that ends with the search
NEVER: Final = frozenset((17, 36))
"""A login is made by the connection itself; changed ones are sent before it."""
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Found(NamedTuple):
    """What a search has sent, and what is wrong."""

    requests: int
    answers: int
    connections: int
    answered: int
    """Connections that got an answer to their last, whole request."""
    grown_bytes: int
    log_bytes: int
    findings: list[str]


def seeds() -> Iterator[bytes]:
    """Yield every request in every version, with its header. Names are of what exists: they are as
    long as those of the seeds of messages, so that they can take their place."""
    old, new = VALUES["string"], TOPIC
    assert isinstance(old, str)
    batch = encode_batch([(1, None, b"value", ())])
    client = ClientConnection("fuzz")
    for key, versions in sorted(served_versions().items()):
        if key in NEVER:
            continue
        cls = request_class(key)
        for version in range(versions.first, versions.last + 1):
            parts = client.send(full(cls, version), version)
            whole = b"".join(map(bytes, parts))[4:]
            named = whole.replace(old.encode(), new.encode())
            yield named
            if key == 0 and b"\x02\xfd" in named:
                short, long = b"\0\0\0\x02\x02\xfd", len(batch).to_bytes(4, "big") + batch
                yield named.replace(short, long).replace(b"\x03\x02\xfd", b"\x50" + batch)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def login() -> bytes:
    client = ClientConnection("fuzz")
    data = f"\0{USER}\0{PASSWORD}".encode()
    asked = (
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=data), 2),
    )
    return b"".join(bytes(part) for each, version in asked for part in client.send(each, version))


def last_request() -> bytes:
    client = ClientConnection("fuzz")
    request = ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
    whole = bytearray(b"".join(map(bytes, client.send(request, 3))))
    whole[8:12] = LAST.to_bytes(4, "big")
    return bytes(whole)


class Search:
    """Connections to one broker."""

    def __init__(self, random: Random, ports: tuple[int, int, int]) -> None:
        self.random = random
        self.ports = ports
        self.requests = 0
        self.connections = 0
        self.answers = 0
        self.answered = 0
        known = list(seeds())
        self.findings: list[str] = []
        self._mutants = mutants(known, random)
        self._known = known
        self._login, self._last = login(), last_request()

    def payload(self, kind: int) -> bytes:
        """Of a connection: before a login, after it, or where there is none."""
        random, count = self.random, self.random.randint(1, A_CONNECTION)
        self.requests += count
        parts = [self._login] if kind == 1 else []
        for _ in range(count):
            data = random.choice(self._known) if random.random() < 0.75 else next(self._mutants)
            if random.random() < 0.02:
                parts.append(data)  # without its size
            else:
                parts.append(framed(data))
        return b"".join((*parts, self._last))

    async def connect(self) -> None:
        """Send what one connection sends, and wait for its end."""
        kind = self.random.randrange(3)
        reader, writer = await asyncio.open_connection(HOST, self.ports[kind == 2])
        self.connections += 1
        try:
            writer.write(self.payload(kind))
            with suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    while True:
                        size = int.from_bytes(await reader.readexactly(4), "big")
                        answer = await reader.readexactly(size)
                        self.answers += 1
                        if answer[:4] == LAST.to_bytes(4, "big"):
                            self.answered += 1
                            break
        finally:
            writer.transport.abort()

    async def run(self, until: float, requests: int = NO_END) -> None:
        async def work() -> None:
            while time.monotonic() < until and self.requests < requests:
                await self.connect()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


def settings(folder: Path, ports: tuple[int, int, int], *, may_all: bool) -> str:
    """Return the settings of a broker. `may_all`: a client without a login may do anything."""
    bound = f"SASL_PLAINTEXT://{HOST}:{ports[0]},PLAINTEXT://{HOST}:{ports[1]}"
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"{bound},CONTROLLER://{HOST}:{ports[2]}",
        "advertised.listeners": bound,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{ports[2]}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required "
        f'user_{USER}="{PASSWORD}" user_admin="{PASSWORD}";',
        "connection.failed.authentication.delay.ms": "1",
        "authorizer.class.name": "standard",
        "super.users": "User:admin;User:ANONYMOUS" if may_all else "User:admin",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.min.isr": "1",
        "group.max.size": "50",
        "producer.id.expiration.ms": "10000",
        "log.retention.bytes": str(4 << 20),
        "log.segment.bytes": str(2 << 20),
        "log.retention.check.interval.ms": "5000",
    }
    return "".join(f"{name}={value}\n" for name, value in given.items())


def give_rights(port: int) -> None:
    """Let both users do anything to topics and groups, by an admin of the listener with logins."""
    given = {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": PASSWORD,
    }
    operations = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    kinds = (AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID)
    rules = [
        Acl(f"User:{user}", operation, TOPIC, kind)
        for user in (USER, "ANONYMOUS")
        for operation in operations
        for kind in kinds
        if (kind, operation)
        not in (
            (AclResource.GROUP, AclOperation.WRITE),
            (AclResource.TRANSACTIONAL_ID, AclOperation.READ),
        )
    ]
    with Admin(given) as admin:
        if TOPIC not in {each.name for each in admin.list_topics()}:
            admin.create_topic(NewTopic(TOPIC, 4))
        SecurityAdmin(admin).create_acls(rules)


class Process(NamedTuple):
    """A broker that is up."""

    popen: subprocess.Popen[str]
    log: Path
    ports: tuple[int, int, int]
    """With a login, without one, and of the controller."""

    @property
    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def findings(self) -> list[str]:
        """Return the lines of the log that no request may cause, and how the process ended."""
        lines = self.log.read_text(errors="replace").splitlines()
        found = [each[:500] for each in lines if any(word in each for word in UNEXPECTED)]
        code = self.popen.poll()
        return found[:20] if code is None else [f"the broker ended with {code}", *lines[-20:]]


@contextmanager
def broker(*, may_all: bool = False) -> Iterator[Process]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        with_login, without, controller = free_ports(3)
        config = folder / "server.properties"
        config.write_text(settings(folder, (with_login, without, controller), may_all=may_all))
        log = folder / "log"
        code, _, err = finished("storage", "format", "--config", str(config), home=folder)
        assert not code, err
        popen = stack.enter_context(
            subprocess.Popen(  # noqa: S603 (our own command)
                [sys.executable, "-m", "moldau.cli", "broker", "start", "--config", str(config)],
                stdout=subprocess.PIPE,
                stderr=stack.enter_context(log.open("w")),
                text=True,
                cwd=folder,
                env={"HOME": name, "PATH": os.environ["PATH"]},
            )
        )
        stack.callback(popen.kill)
        try:
            BrokerProcess(popen)
        except AssertionError as error:
            raise AssertionError(log.read_text()) from error
        give_rights(with_login)
        yield Process(popen, log, (with_login, without, controller))


def search(
    seconds: float, seed: int, mutator: str = BROKEN, requests: int = NO_END, listener: str = BROKER
) -> Found:
    """Send requests for some time, or that many."""
    with broker(may_all=mutator == EXTREME) as at:
        made: Search | ExtremeSearch
        if mutator == EXTREME:
            with_login, without, controller = at.ports
            if listener == BROKER:
                made = ExtremeSearch(seed, without, listener, (with_login, login()))
            else:
                made = ExtremeSearch(seed, controller, listener)
        else:
            made = Search(Random(seed), at.ports)

        def run(some: float) -> None:
            asyncio.run(made.run(time.monotonic() + some, requests))

        run(min(seconds / 5, WARM_SECONDS_MAX))  # caches fill, and the topic
        before, log_before = at.resident_bytes, at.log.stat().st_size
        run(seconds - min(seconds / 5, WARM_SECONDS_MAX))
        grown, logged = at.resident_bytes - before, at.log.stat().st_size - log_before
        findings = [*made.findings, *at.findings()]
        if grown > MEMORY_BYTES_MAX:
            findings.append(f"its memory grew by {grown >> 20} MiB")
        if logged > LOG_BYTES_MAX + LOG_BYTES_A_SECOND * seconds:
            findings.append(f"its log grew by {logged >> 10} KiB")
        if at.popen.poll() is None and mutator == BROKEN:
            give_rights(at.ports[0])  # it still serves
        return Found(
            made.requests, made.answers, made.connections, made.answered, grown, logged, findings
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.hostile.request_fuzz")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--requests", type=int, default=NO_END)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutator", choices=(BROKEN, EXTREME), default=BROKEN)
    parser.add_argument("--listener", choices=(BROKER, CONTROLLER), default=BROKER)
    given = parser.parse_args()
    is_open = given.seconds is None and given.requests != NO_END
    seconds = A_DAY if is_open else 60 if given.seconds is None else given.seconds
    found = search(seconds, given.seed, given.mutator, given.requests, given.listener)
    print(found._replace(findings=[]))
    print("\n".join(found.findings) or "nothing found")
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
