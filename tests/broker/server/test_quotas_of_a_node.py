"""Quotas of topic changes, of time and of connections on a running broker."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client import Admin, NewTopic
from moldau.client.admin.quotas import DEFAULT, QuotaAdmin, QuotaEntity
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.testing import EmbeddedBroker

pytestmark = pytest.mark.real


async def quick(bootstrap_servers: str, name: str, partitions: int) -> ErrorCode:
    """Create a topic without another attempt."""
    options = {"default.api.timeout.ms": "2000", "request.timeout.ms": "2000"}
    async with Admin({"bootstrap.servers": bootstrap_servers, **options}) as admin:
        try:
            await admin.create_topic(NewTopic(name, partitions, 1))
        except KafkaError as error:
            return error.code
    return ErrorCode.NONE


def test_topic_changes_beyond_the_quota_are_refused() -> None:
    async def main() -> None:
        async with EmbeddedBroker() as broker:
            servers = broker.bootstrap_servers
            async with Admin(bootstrap_servers=servers) as admin:
                quotas = QuotaAdmin(admin)
                everyone = QuotaEntity(user=DEFAULT)
                await quotas.alter(everyone, {"controller_mutation_rate": 0.1})
                assert await quick(servers, "a", 9) == ErrorCode.NONE
                assert await quick(servers, "b", 1) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
                await quotas.alter(everyone, {}, unset=["controller_mutation_rate"])
                assert await quick(servers, "b", 1) == ErrorCode.NONE

    asyncio.run(main())


def test_an_address_that_connects_too_often_is_turned_away() -> None:
    async def main() -> None:
        async with EmbeddedBroker() as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")

            async def is_served() -> bool:
                """Whether the broker keeps a new connection, and answers on it."""
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(bytes.fromhex("0000000a00120000000000010000"))  # ApiVersions 0
                try:
                    return bool(await reader.read(4))
                except ConnectionError:
                    return False
                finally:
                    writer.close()

            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                entity = QuotaEntity(ip="127.0.0.1")
                quotas = QuotaAdmin(admin)
                await quotas.alter(entity, {"connection_creation_rate": 1})
                served = [await is_served() for _ in range(2)]
                assert served[0]
                served += await asyncio.gather(*(is_served() for _ in range(5)))
                assert served.count(False) >= 4
                await quotas.alter(entity, {}, unset=["connection_creation_rate"])
                assert all([await is_served() for _ in range(5)])

    asyncio.run(main())
