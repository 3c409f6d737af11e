"""Each API in each of its versions, where brokers and controllers are apart: there a response goes
through bytes twice, and a field that its version does not have would end a connection.

The requests are made from their declarations: a field gets the value that its name calls for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from moldau.broker.api.handlers import APIS
from moldau.errors.codes import ErrorCode
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request, Response, Struct
from moldau.protocol.messages import API, request_class
from moldau.protocol.messages.describe_producers import DescribeProducersResponse
from moldau.protocol.negotiation import supported_versions
from moldau.protocol.spec import ArrayOf, FieldSpec, StructSpec
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import CONTROLLER_PORT
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world

QUORUM: Final = "__cluster_metadata"
_TEXTS: Final = ("topic", "topic_name", "topic_names", "name", "topics", "resource_name")
_BETWEEN_NODES: Final = {key for key, row in APIS.items() if row.listeners == {"controller"}} | {1}
"""Requests of other nodes, such as those that elect leaders, which have tests of their own."""
_ENDS: Final = {64, 81}
"""They would remove a node."""


def sample(spec: StructSpec, version: int, api: str) -> Struct:
    """A struct with a value in each field that the version has."""
    values: dict[str, Any] = {
        field.name: value_of(field, field.type, version, api)
        for field in spec.fields
        if field.is_present(version) and not field.is_tagged(version)
    }
    for field in spec.fields:
        if field.name not in values and field.is_required:
            values[field.name] = field.make_default()
    made: Struct = spec.cls(**values)
    return made


def value_of(field: FieldSpec, kind: Any, version: int, api: str) -> Any:
    if isinstance(kind, ArrayOf):
        if field.name == "configuration_keys":
            return None
        return [value_of(field, kind.element, version, api)]
    if isinstance(kind, StructSpec):
        return sample(kind, version, api)
    if field.name in _TEXTS:
        return QUORUM if api == "DescribeQuorum" else TOPIC
    if "timeout" in field.name:
        return 1000
    if field.name in ("resource_type", "acks", "isolation_level"):
        return {"resource_type": 2, "acks": 1, "isolation_level": 0}[field.name]
    if field.name in ("group_id", "group_ids", "groups", "groups_names", "key", "coordinator_keys"):
        return "g"
    return kind.zero if isinstance(field.type, ArrayOf) else field.make_default()


def rows() -> Iterator[tuple[str, int, int]]:
    """Every API of clients, on each kind of listener that offers it, in each version."""
    for role in ("broker", "controller"):
        for key, versions in supported_versions(role).items():
            row = APIS.get(key)
            if row is None or role not in row.listeners or key in _ENDS:
                continue
            if role == "broker" or key not in _BETWEEN_NODES:
                yield from ((role, key, version) for version in versions.all())


async def ask(
    runtime: Runtime, host: str, port: int, key: int, version: int
) -> Response | BaseException:
    reader, writer = await runtime.network.open_streams(host, port)
    try:
        connection = ClientConnection("sweep")
        cls = request_class(key)
        message = sample(cls.spec, version, API[key].name)
        assert isinstance(message, Request)
        writer.writelines(connection.send(message, version))
        async with asyncio.timeout(30):
            size = int.from_bytes(await reader.readexactly(4), "big")
            return connection.receive(await reader.readexactly(size)).response
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
        return error
    finally:
        writer.close()


def test_no_version_of_an_api_ends_its_connection() -> None:
    with new_world(7) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3)
        brokers.await_up()
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.run(traffic.create)
        failures: list[str] = []
        quorums: list[Response] = []

        async def sweep(runtime: Runtime) -> int:
            at = brokers.bootstrap_servers.split(",")[0].rpartition(":")
            leader = f"b{brokers.controller()}"
            places = {"broker": (at[0], int(at[2])), "controller": (leader, CONTROLLER_PORT)}
            asked = 0
            for role, key, version in rows():
                answer = await ask(runtime, *places[role], key, version)
                asked += 1
                code = getattr(answer, "error_code", 0)
                if isinstance(answer, BaseException) or code == ErrorCode.UNKNOWN_SERVER_ERROR:
                    failures.append(f"{role} {API[key].name} {version}: {answer!r}")
                elif key == 55:
                    quorums.append(answer)
            return asked

        assert brokers.run(sweep, "sweep", within=600) > 150
        assert not failures, "\n".join(failures)
        assert len(quorums) == 6
        for each in quorums:
            (partition,) = each.topics[0].partitions  # type: ignore[attr-defined]
            assert partition.error_code == 0
            assert len(partition.current_voters) == 3
            assert partition.observers, "the sweep must see their directories, too"


def test_a_follower_describes_its_producers() -> None:
    """An operator compares the replicas of a partition; Kafka's followers answer, too."""
    with new_world(8) as world:
        brokers = SimulatedBrokers(world, 3)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        brokers.await_in_sync(TOPIC, {1, 2, 3}, within=60)
        follower = brokers.leader_of(TOPIC) % 3

        async def describe(runtime: Runtime) -> Response | BaseException:
            host, _, port = brokers.bootstrap_servers.split(",")[follower].rpartition(":")
            return await ask(runtime, host, int(port), 61, 0)

        answer = brokers.run(describe, "operator")
        assert isinstance(answer, DescribeProducersResponse)
        (topic,) = answer.topics
        assert [each.error_code for each in topic.partitions] == [0]
