"""Settings and addresses of clients: Kafka's names, refused where they make no sense."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import pytest

from moldau.client import Admin, Consumer, Producer
from moldau.client.base.given import resolve
from moldau.client.serdes.registry import SchemaRegistry
from moldau.client.settings import producer as producer_rows
from moldau.client.settings import rows
from moldau.client.settings import serdes as serde_rows
from moldau.client.settings.every_client import (
    WITHOUT_MEANING_PREFIXES,
    WITHOUT_MEANING_TO_ADMINS,
    WITHOUT_MEANING_TO_CONSUMERS,
    why_without_meaning,
)
from moldau.client.settings.group import coordinator_decides
from moldau.client.settings.unused import UNUSED
from moldau.config import REQUIRED, BadSettings, SettingTable
from moldau.errors import ConfigError
from moldau.link.addresses import Address, parse_address
from moldau.link.settings import addresses
from moldau.runtime import Runtime
from tests.client.page import PAGE, render
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.peers.apache_kafka import OLDER, VERSION, fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM

# Java must be told how to make bytes; here records are bytes without it.
NULL_HERE: Final = frozenset(
    ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
)


def test_mappings_and_keywords_mean_the_same_and_keywords_win() -> None:
    given = {"bootstrap.servers": "a:1,b:2", "batch.size": "10"}
    settings = resolve(rows.PRODUCER_SETTINGS, given, {"batch_size": 20, "linger_ms": 0})
    assert settings[producer_rows.batch_size] == 20
    assert settings[producer_rows.linger_ms] == 0
    assert addresses(settings) == (Address("a", 1), Address("b", 2))
    listed = resolve(rows.ADMIN_SETTINGS, {}, {"bootstrap_servers": ["a:1", "b:2"]})
    assert addresses(listed) == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap_servers": "nohost"}, "host:port"),
        ({"bootstrap_servers": "a:1", "batch_siz": 5}, "batch.size"),
        ({"bootstrap_servers": "a:1", "acks": "2"}, "acks"),
        ({"bootstrap_servers": "a:1", "acks": "1", "enable_idempotence": True}, "acks=all"),
        (
            {
                "bootstrap_servers": "a:1",
                "enable_idempotence": True,
                "max_in_flight_requests_per_connection": 6,
            },
            "5 or less",
        ),
        ({"bootstrap_servers": "a:1", "delivery_timeout_ms": 10}, "request.timeout.ms"),
        ({"bootstrap_servers": "a:1", "retries": 0, "enable_idempotence": True}, "retries of 1"),
        (
            {
                "bootstrap_servers": "a:1",
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "DIGEST-MD5",
            },
            "GSSAPI",
        ),
        ({"bootstrap_servers": "a:1", "security_protocol": "secret"}, "SASL_SSL"),
        ({"bootstrap_servers": "a:1", "transactional_id": "t", "acks": "1"}, "acks=all"),
        (
            {"bootstrap_servers": "a:1", "transaction_two_phase_commit_enable": True},
            "two.phase.commit.enable is not built yet",
        ),
        ({"bootstrap_servers": "a:1", "config_providers": "env"}, "looks up no references"),
    ],
)
def test_bad_settings_are_told(options: dict[str, object], told: str) -> None:
    with pytest.raises(BadSettings, match=told):
        Producer(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["client.id", "client.rack", "group.id", "group.instance.id", "group.remote.assignor"]
)
def test_what_no_message_has_place_for_is_refused_when_it_is_set(name: str) -> None:
    """A consumer whose heartbeats cannot be written would say nothing for ever."""
    given: dict[str, Any] = {"bootstrap.servers": "a:1", "group.id": "g", name: "x\ud800"}
    with pytest.raises(BadSettings, match=f"{name}.*32767 bytes in UTF-8"):
        Consumer(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.id", b"billing"),
        ("session.timeout.ms", bytearray(b"45000")),
        ("partition.assignment.strategy", [b"range"]),
        ("basic.auth.user.info", memoryview(b"me:hush")),
    ],
)
def test_bytes_are_no_text(name: str, value: object) -> None:
    """Python would take them for their numbers, and a group "98,105,108" be made."""
    words = re.escape(f"{name}: is bytes, and a setting is text: decode it first")
    options: dict[str, Any] = {name.replace(".", "_"): value}
    with pytest.raises(BadSettings, match=f"^{words}$"):
        Consumer({"bootstrap.servers": "a:1", name: value})
    with pytest.raises(BadSettings, match=f"^{words}$"):
        Consumer(bootstrap_servers="a:1", **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"acks": "1"}, False),
        ({"max_in_flight_requests_per_connection": 6}, False),
        ({"retries": 0}, False),
    ],
)
def test_idempotence_is_on_unless_something_rules_it_out(
    options: dict[str, object], expected: bool
) -> None:
    given = {"bootstrap_servers": "a:1", **options}
    assert producer_rows.idempotent(resolve(rows.PRODUCER_SETTINGS, {}, given)) is expected


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({}, None),
        ({"acks": "1"}, "acks=all, not acks=1"),
        ({"retries": 0}, "retries of 1 or more, not retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "5 or less"),
        ({"acks": "1", "enable_idempotence": False}, None),
    ],
)
def test_who_loses_idempotence_to_another_setting_hears_of_it_once(
    options: dict[str, Any], needed: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as producer:
            await producer.start()

    with ClientWorld() as world, caplog.at_level(logging.INFO, "moldau.client"):
        world.run_client(main)
    told = [each.getMessage() for each in caplog.records if each.name == "moldau.client"]
    assert len(told) == (needed is not None)
    assert needed is None or (told[0].startswith("producer: enable.idempotence is off: it needs"))
    assert needed is None or needed in told[0]


@pytest.mark.parametrize(
    ("client", "name", "bad", "good"),
    [
        (Producer, "client.dns.lookup", "foo", "use_all_dns_ips"),
        (Admin, "connections.max.idle.ms", "long", "-1"),
        (Consumer, "enable.metrics.push", "perhaps", "true"),
        (Producer, "metadata.recovery.rebootstrap.trigger.ms", -1, 0),
        (Consumer, "metadata.recovery.strategy", "x", "Rebootstrap"),
        (Admin, "metrics.recording.level", "info", "DEBUG"),
        (Producer, "receive.buffer.bytes", -2, -1),
        (Consumer, "send.buffer.bytes", "64k", 65_536),
        (Producer, "socket.connection.setup.timeout.max.ms", "1s", 1000),
        (Producer, "transaction.timeout.ms", 2**31, 1000),
        (Consumer, "share.acknowledgement.mode", "maybe", "EXPLICIT"),
        (Consumer, "share.acquire.mode", "all", "record_limit"),
        (Admin, "metrics.num.samples", 0, 1),
        (Admin, "metrics.sample.window.ms", -1, 0),
        (Admin, "retries", -1, 0),
        (Admin, "client.dns.lookup", b"use_all_dns_ips", None),
    ],
)
def test_a_setting_without_effect_takes_what_kafka_takes(
    client: type[Producer | Consumer | Admin], name: str, bad: object, good: object
) -> None:
    client({"bootstrap.servers": BOOTSTRAP, name: good})
    with pytest.raises(BadSettings, match=re.escape(name)) as caught:
        client({"bootstrap.servers": BOOTSTRAP, name: bad})
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_settings_without_meaning_are_told_once_and_secrets_are_not(
    client: type[Producer | Consumer | Admin], caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        given = {"bootstrap.servers": BOOTSTRAP, "ssl.key.password": "hush", "client.id": "me"}
        made = client(given, runtime=runtime, send_buffer_bytes=1000)  # type: ignore[call-arg]
        await made.start()
        await made.aclose()

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.run_client(main)
    assert [each.getMessage().split(":")[:2] for each in caplog.records] == [
        [client.__name__.lower(), " ssl.key.password has no effect"],
        [client.__name__.lower(), " send.buffer.bytes has no effect"],
    ]
    assert "hush" not in caplog.text


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_javas_settings_of_serializers_are_each_told_to_have_no_effect(
    client: type[Producer | Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    javas = dict.fromkeys(serde_rows.WITHOUT_MEANING, "true")

    async def main(runtime: Runtime) -> None:
        await (made := client({"bootstrap.servers": BOOTSTRAP, **javas}, runtime=runtime)).start()
        await made.aclose()

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.run_client(main)
    kind = client.__name__.lower()
    assert [each.getMessage() for each in caplog.records] == [
        f"{kind}: {name} has no effect: {why}" for name, why in serde_rows.WITHOUT_MEANING.items()
    ]


def test_a_registry_client_by_itself_tells_of_them_too(caplog: pytest.LogCaptureFixture) -> None:
    given = {"schema.registry.url": "http://a:1", "specific.avro.reader": "true"}
    with caplog.at_level(logging.WARNING, "moldau.client"):
        SchemaRegistry(given, derive_type=True)  # type: ignore[call-arg]  # a name of Java's
    assert sorted(each.getMessage().split(":")[1] for each in caplog.records) == [
        " derive.type has no effect",
        " specific.avro.reader has no effect",
    ]
    with pytest.raises(BadSettings, match=r"specific\.avro\.raeder"):
        SchemaRegistry({"schema.registry.url": "http://a:1", "specific.avro.raeder": "true"})


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "security.protocol"),
        ({"config.providers": "file"}, "config.providers"),
    ],
)
def test_what_would_be_dangerous_to_ignore_is_refused(
    client: type[Producer | Consumer | Admin], given: dict[str, str], named: str
) -> None:
    with pytest.raises(BadSettings, match=named):
        client({"bootstrap.servers": BOOTSTRAP, **given})
    client({"bootstrap.servers": BOOTSTRAP, "security.protocol": "plaintext"})


def test_the_group_protocol_may_be_written_in_any_case() -> None:
    given = {"bootstrap.servers": BOOTSTRAP, "group.id": "g", "group.protocol": "CONSUMER"}
    assert coordinator_decides(Consumer(given).settings)
    with pytest.raises(BadSettings, match=r"session\.timeout\.ms"):
        Consumer(given, session_timeout_ms=10_000)


# By the class of Java's that prints its settings: our table, and what has no effect besides.
Known = tuple[str, SettingTable, Mapping[str, str]]
KNOWN: Final[list[Known]] = [
    (
        "producer.ProducerConfig",
        rows.PRODUCER_SETTINGS,
        {**producer_rows.WITHOUT_MEANING, **serde_rows.WITHOUT_MEANING},
    ),
    (
        "consumer.ConsumerConfig",
        rows.CONSUMER_SETTINGS,
        {**WITHOUT_MEANING_TO_CONSUMERS, **serde_rows.WITHOUT_MEANING},
    ),
    ("admin.AdminClientConfig", rows.ADMIN_SETTINGS, WITHOUT_MEANING_TO_ADMINS),
]


def has_no_effect(name: str, own: Mapping[str, str]) -> bool:
    return name in own or why_without_meaning(name) is not None


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known[0])
def test_a_setting_is_either_followed_or_without_meaning(known: Known) -> None:
    _, table, own = known
    assert not [row.name for row in table if has_no_effect(row.name, own)]


_ENTRY = re.compile(r'<li>\s*<h4><a id="([^"]+)".*?<table><tbody>(.*?)</tbody></table>', re.DOTALL)
_FACT = re.compile(r"<tr><th>(.*?):</th><td>(.*?)</td></tr>")
_OTHER_DEFAULTS = {
    "enable.idempotence": "true, unless something rules it out",
    "compression.gzip.level": "as the library has it",
    "enable.auto.commit": "true, where there is a group",
    "partition.assignment.strategy": "the same two, by their names",
}
_REFUSED = {"bootstrap.controllers"}


@pytest.mark.real
@pytest.mark.parametrize("version", [OLDER, VERSION])
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known[0])
def test_every_setting_of_kafkas_clients_is_known_with_its_default(
    known: Known, version: str
) -> None:
    config, table, own = known
    kafka = fetch_or_skip(version)
    command = [*kafka.command(*TOOL_JVM), f"org.apache.kafka.clients.{config}"]
    page = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603
    theirs = {name: dict(_FACT.findall(facts)) for name, facts in _ENTRY.findall(page)}
    assert len(theirs) > 60
    assert not [
        name
        for name in theirs
        if table.find(name) is None and not has_no_effect(name, own) and name not in _REFUSED
    ]
    assert not [
        name
        for name, facts in theirs.items()
        if "Valid Values" in facts
        and has_no_effect(name, own)
        and not name.startswith(tuple(WITHOUT_MEANING_PREFIXES))
        and ((unused := UNUSED.find(name)) is None or (facts["Valid Values"] and not unused.check))
    ], "values that Kafka refuses are taken"
    for name, facts in theirs.items():
        row = table.find(name)
        if row is None or name in _OTHER_DEFAULTS or row.default is REQUIRED:
            continue
        default = "null" if name in NULL_HERE else facts["Default"].split(" (")[0].strip('"')
        ours = "null" if row.default is None else row.write(row.default)
        assert (name, ours) == (name, default)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        (" kafka.example:1 ", Address("kafka.example", 1)),
        ("[::1]:9092", Address("::1", 9092)),
        ("PLAINTEXT://a:1", Address("a", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:b", "::1:9092", "SSL://a:1", "a:000001"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("kafka..svc", "a dot with nothing before it"),
        (".kafka", "a dot with nothing before it"),
        ("kafka..", "a dot with nothing before it"),
        (".", "a dot with nothing before it"),
        ("k" * 64, "longer than 63 characters"),
        ("kaf\0ka", "characters that no name has"),
        ("kaf\u2028ka", "characters that no name has"),
        ("kaf\udc80ka", "characters that no name has"),
    ],
)
def test_a_host_that_no_resolver_takes_is_refused_with_what_is_wrong_with_it(
    host: str, fault: str
) -> None:
    """Beside a good address too: whichever is tried first must not decide about it."""
    with pytest.raises(ConfigError, match=fault):
        parse_address(f"{host}:9092")
    for client in (Producer, Consumer, Admin):
        with pytest.raises(ConfigError, match=rf"bootstrap\.servers .*{fault}"):
            client(bootstrap_servers=["good:9092", f"{host}:9092"])


@pytest.mark.parametrize("host", ["kafka.", "k" * 63, "b\u00fccher.example", "10.0.0.1", "a_b"])
def test_a_host_that_a_resolver_takes_is_an_address(host: str) -> None:
    assert parse_address(f"{host}:9092") == Address(host, 9092)


def test_the_page_is_the_one_that_the_rows_make() -> None:
    """python -m tests.client.page writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == render()
