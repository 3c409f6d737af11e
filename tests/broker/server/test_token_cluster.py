"""A delegation token in a cluster of three: made at one broker, used at the others, renewed and
ended while the controller moves, and refused by a node with another key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import pytest

from moldau.broker.log.rounds import rest
from moldau.broker.server import Broker
from moldau.client import Admin
from moldau.client.admin.delegation_tokens import DelegationToken, TokenAdmin
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import format_uuid, new_uuid
from moldau.link.login.sasl import LoginRefused
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from tests.broker.hostile.neighbour import PAUSE_SECONDS
from tests.broker.server.houses import house
from tests.broker.server.secure_houses import CANARY, PLAIN_MODULE, SecureHouse
from tests.runtime.arena import HOST, play

IDS = (1, 2, 3)
KEY = "delegation.token.secret.key"
KNOWN_SECONDS = 180.0
"""How long what one node decided may take to the others: a bound for busy machines."""


def settings_of(node_id: int, ports: list[int]) -> dict[str, str]:
    voters = ",".join(f"{each}@localhost:{port}" for each, port in zip(IDS, ports, strict=True))
    users = " ".join(f'user_{each}="{CANARY}"' for each in ("alice", "bob", "carol"))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "listeners": f"CLIENTS://{HOST}:0,PLAINTEXT://{HOST}:0,"
        f"CONTROLLER://localhost:{ports[node_id - 1]}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.bootstrap.servers": "",
        "controller.quorum.voters": voters,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "connection.failed.authentication.delay.ms": "1",
        KEY: "canary-key",
    }


class Three:
    """The nodes that run."""

    def __init__(self, houses: dict[int, SecureHouse]) -> None:
        self.houses = houses
        self.brokers: dict[int, Broker] = {}

    async def start(self, *node_ids: int) -> None:
        started = await asyncio.gather(*(self.houses[each].start() for each in node_ids))
        self.brokers.update(zip(node_ids, started, strict=True))

    async def stop(self, node_id: int) -> None:
        await self.brokers.pop(node_id).aclose()

    def user(self, node_id: int, name: str = "alice") -> dict[str, str]:
        return {
            **self._at(node_id),
            "sasl.mechanism": "PLAIN",
            "sasl.username": name,
            "sasl.password": CANARY,
        }

    def by_token(self, node_id: int, token: DelegationToken) -> dict[str, str]:
        config = token.jaas_config()
        return {
            **self._at(node_id),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": config,
        }

    def _at(self, node_id: int) -> dict[str, str]:
        port = self.brokers[node_id].endpoints["CLIENTS"].port
        return {"bootstrap.servers": f"{HOST}:{port}", "security.protocol": "SASL_PLAINTEXT"}

    async def lets_in(self, node_id: int, token: DelegationToken) -> bool:
        """Whether a client with the token is let in by the node."""
        try:
            async with Admin(self.by_token(node_id, token)):
                return True
        except LoginRefused:
            return False

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(KNOWN_SECONDS):
            while not await holds():
                await rest(PAUSE_SECONDS)


@asynccontextmanager
async def three(runtime: Runtime) -> AsyncIterator[Three]:
    ports = free_ports(3)
    async with AsyncExitStack() as stack:
        houses = {}
        cluster_id = format_uuid(new_uuid(runtime.random))
        for each in IDS:
            plain = await stack.enter_async_context(house(runtime))
            houses[each] = SecureHouse(runtime, plain.directory, settings_of(each, ports))
            houses[each].cluster_id = cluster_id
        at = Three(houses)
        await at.start(*IDS)
        try:
            yield at
        finally:
            await asyncio.gather(*(at.stop(each) for each in list(at.brokers)))


def test_a_token_counts_at_all_nodes_until_it_ends_or_their_key_changes() -> None:
    async def main(runtime: Runtime) -> None:
        async with three(runtime) as at:
            token, controller = await made(at)
            left = [each for each in IDS if each != controller]
            await refusals(at, token)

            await at.stop(controller)
            await at.until(lambda: renewed(at, left, token))
            for each in left:
                assert await at.lets_in(each, token)

            # It comes back with another key, as in a rolling change of it.
            at.houses[controller].given[KEY] = "canary-key-2"
            await at.start(controller)
            await at.until(partial(explains, at, controller, token))
            assert await at.lets_in(left[0], token)
            async with Admin(at.user(controller)) as admin:
                assert [each.token_id for each in await TokenAdmin(admin).describe()] == [
                    token.token_id
                ]

            async with Admin(at.user(left[0])) as admin:
                await TokenAdmin(admin).expire(token.hmac)
            for each in left:
                await at.until(partial(refuses, at, each, token))
            lines = [line for each in at.houses.values() for line in each.lines]
            for secret in (CANARY, "canary-key", token.password, token.hmac.hex()):
                assert not [line for line in lines if secret in line]

    play("asyncio", main)


async def made(at: Three) -> tuple[DelegationToken, int]:
    """Make a token at the first node; return it when all know it, with the active controller."""
    async with Admin(at.user(1)) as admin:
        token = await TokenAdmin(admin).create(renewers=["User:bob"])
        controller = (await admin.describe_quorum()).leader_id
    for each in IDS:
        await at.until(partial(at.lets_in, each, token))
    return token, controller


async def refusals(at: Three, token: DelegationToken) -> None:
    """Neither a stranger nor a login by the token itself makes more of it, at any node."""
    for given, code in (
        (at.user(3, "carol"), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (at.by_token(2, token), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ):
        async with Admin(given) as admin:
            with pytest.raises(KafkaError) as caught:
                await TokenAdmin(admin).renew(token.hmac)
            assert caught.value.code is code


async def renewed(at: Three, left: list[int], token: DelegationToken) -> bool:
    """Whether a renewer could renew the token at a node that is left, by the new controller."""
    with suppress(KafkaError):
        async with Admin(at.user(left[0], "bob")) as admin:
            expires_ms = await TokenAdmin(admin).renew(token.hmac, 3_600_000)
            assert expires_ms < token.expires_ms
            return (await admin.describe_quorum()).leader_id in left
    return False


async def explains(at: Three, node_id: int, token: DelegationToken) -> bool:
    """Whether a node that refuses the token has said why. It may first have to learn of it."""
    assert not await at.lets_in(node_id, token)
    told = f"user={token.token_id} ", "made with another delegation.token.secret.key"
    return any(all(each in line for each in told) for line in at.houses[node_id].lines)


async def refuses(at: Three, node_id: int, token: DelegationToken) -> bool:
    return not await at.lets_in(node_id, token)
