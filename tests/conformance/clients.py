"""Which clients there are, what each can do, and how its program is started.

The fixture `client` of a test runs it once with each of them:

    @pytest.mark.parametrize("client", NAMES, indirect=True)

A client that this machine cannot have skips its tests with the reason. Programs are kept by the
session, one a client, and ended with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.broker import MoldauBroker
from tests.conformance.built import go_program, node_modules
from tests.conformance.program import Client, Program
from tests.conformance.records import CODECS, record_as_told, record_by_header_name
from tests.peers.apache_kafka import fetch_or_skip

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent


@dataclass(frozen=True, slots=True)
class Kind:
    """One client: how to start it (it skips where that cannot be), and what it lacks."""

    command: Callable[[], Sequence[str]]
    writes: Sequence[str] = CODECS
    reads: Sequence[str] = CODECS
    sends_null_headers: bool = True
    tells_headers_in_order: bool = True


def _python(module: str, needs: str) -> Callable[[], Sequence[str]]:
    def command() -> Sequence[str]:
        if find_spec(needs) is None:
            pytest.skip(f"{needs} is not installed (make peers)")
        return (sys.executable, "-m", f"tests.conformance.programs.{module}")

    return command


def _java() -> Sequence[str]:
    kafka = fetch_or_skip()
    source = HERE / "programs" / "JavaClient.java"
    return (*kafka.command("-Xmx256m", "-XX:TieredStopAtLevel=1"), str(source))


def _kafkajs() -> Sequence[str]:
    node, modules = node_modules()
    return (node, str(HERE / "programs" / "kafkajs_client.js"), str(modules))


CLIENTS: Final[Mapping[str, Kind]] = {
    "java": Kind(_java),
    "confluent": Kind(_python("confluent", "confluent_kafka")),
    "kafka-python": Kind(_python("kafka_python", "kafka"), sends_null_headers=False),
    "aiokafka": Kind(_python("aio_kafka", "aiokafka")),
    # Its other codecs are packages of third parties; snappy's is plain JavaScript.
    "kafkajs": Kind(
        _kafkajs,
        writes=("none", "gzip", "snappy"),
        reads=("none", "gzip", "snappy"),
        sends_null_headers=False,
        tells_headers_in_order=False,  # an object by name, a list where a name comes again
    ),
    "sarama": Kind(lambda: (go_program("sarama"),)),
    "franz-go": Kind(lambda: (go_program("franz"),)),
    "moldau": Kind(_python("moldau_client", "moldau.client")),
}
NAMES: Final = tuple(CLIENTS)

_PROGRAMS = pytest.StashKey[dict[str, Program]]()


def program_of(config: pytest.Config, name: str) -> Program:
    """The session's program of that client; skips where it cannot be had."""
    programs = config.stash.setdefault(_PROGRAMS, {})
    if name not in programs:
        program = Program(name, CLIENTS[name].command(), ROOT)
        config.add_cleanup(program.close)
        programs[name] = program
    return programs[name]


@pytest.fixture
def client(request: pytest.FixtureRequest, moldau: MoldauBroker) -> Client:
    """The client that the test is parametrized with, on the session's broker."""
    return client_of(request.config, request.param, moldau.bootstrap_servers)


def client_of(config: pytest.Config, name: str, bootstrap: str) -> Client:
    """That client on that broker."""
    kind = CLIENTS[name]
    told = record_as_told if kind.tells_headers_in_order else record_by_header_name
    return Client(program_of(config, name), bootstrap, kind.sends_null_headers, told)


def available(config: pytest.Config, bootstrap: str) -> list[Client]:
    """All clients that this machine can have, each on that broker."""
    found = []
    for name in NAMES:
        try:
            found.append(client_of(config, name, bootstrap))
        except pytest.skip.Exception:
            continue
    return found
