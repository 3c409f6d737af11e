"""Which settings `moldau config describe` shows, and which names count as known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

import pytest

from moldau.client import Admin, ConfigEntry, ConfigSource, Resource, ResourceType
from moldau.errors import MoldauError
from moldau.operations.settings import check_known, check_settable, known_names
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Done, Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Runs commands against a broker that has the topic orders, with two settings of its own."""
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        settings = ("--config", "segment.bytes=9999999", "--config", "retention.ms=7")
        shell.good("topic", "create", "orders", *settings)
        yield shell


def names(done: Done) -> list[str]:
    return [row[0] for row in done.rows]


def test_what_was_set_is_described_and_all_else_only_if_it_is_asked_for(shell: Shell) -> None:
    describe = ("config", "describe", "topic", "orders")
    were_set = names(shell.good(*describe))
    assert {"retention.ms", "segment.bytes"} <= {*were_set}
    assert "cleanup.policy" not in were_set
    assert were_set == sorted(were_set)
    everything = names(shell.good(*describe, "--all"))
    assert {"retention.ms", "segment.bytes", "cleanup.policy"} < {*everything}
    assert everything == sorted(everything)
    by_name = shell.good(*describe, "segment.bytes", "cleanup.policy")
    assert names(by_name) == ["cleanup.policy", "segment.bytes"]


def entry(name: str, source: ConfigSource, documentation: str | None) -> ConfigEntry:
    return ConfigEntry(name, "1", source, False, False, (), documentation)


BROKER: Final = Resource(ResourceType.BROKER, "1")
SET: Final = ConfigSource.DYNAMIC_BROKER


@dataclass
class Cluster:
    """An admin of a cluster that describes these settings, with documentation or without."""

    entries: Iterable[ConfigEntry]

    async def describe_configs(
        self, resource: Resource, *, documentation: bool = False
    ) -> list[ConfigEntry]:

        return [*self.entries]


def client(*entries: ConfigEntry) -> Admin:
    return cast(Admin, Cluster(entries))


def test_what_was_set_is_known_only_if_it_is_documented() -> None:
    cluster = client(entry("own", SET, "A number."), entry("of.a.plugin", SET, None))
    assert asyncio.run(known_names(cluster, BROKER)) == {"own"}
    asyncio.run(check_settable(cluster, BROKER, ["own"]))
    with pytest.raises(MoldauError, match=r"no setting of\.a\.plugin; --force"):
        asyncio.run(check_settable(cluster, BROKER, ["own", "of.a.plugin"]))


@pytest.mark.parametrize("source", [ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER])
def test_what_nobody_has_set_is_known_though_an_old_broker_documents_nothing(
    source: ConfigSource,
) -> None:
    cluster = client(entry("own", source, None))
    assert asyncio.run(known_names(cluster, BROKER)) == {"own"}
    asyncio.run(check_settable(cluster, BROKER, ["own"]))


def test_what_is_set_can_be_unset_though_nobody_knows_it() -> None:
    cluster = client(entry("of.a.plugin", SET, None))
    asyncio.run(check_known(cluster, BROKER, ["of.a.plugin"]))
    with pytest.raises(MoldauError, match=r"broker 1 has no setting no\.such"):
        asyncio.run(check_known(cluster, BROKER, ["of.a.plugin", "no.such"]))
