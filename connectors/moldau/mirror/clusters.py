"""The clients of a mirror to its two clusters, and their settings.

A client of the source has the settings `source.cluster.*`, then those of its kind (`consumer.*`),
then `source.consumer.*`; the later one wins. Of `source.cluster.*` each client takes what it knows,
since the prefix is for all kinds of clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

from moldau.client import Admin as AsyncAdmin
from moldau.client import KafkaError, NewTopic
from moldau.client.settings.rows import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
from moldau.client.sync import Admin, Consumer, Producer
from moldau.config import SettingTable
from moldau.config.problems import BadSettings
from moldau.connect.api import ConnectError, Problem, RetriableError
from moldau.errors.amounts import counted
from moldau.errors.codes import ErrorCode
from moldau.mirror.topics import Route
from moldau.operations.hidden import HiddenNames, check_chosen_visible

Side = Literal["source", "target"]
SIDES: Final[tuple[Side, Side]] = ("source", "target")
Kind = Literal["consumer", "producer", "admin"]
C = TypeVar("C", Admin, Consumer[bytes, bytes], Producer[bytes, bytes])
_TABLES: Final[Mapping[str, SettingTable]] = {
    "consumer": CONSUMER_SETTINGS,
    "producer": PRODUCER_SETTINGS,
    "admin": ADMIN_SETTINGS,
}
_KINDS: Final[Mapping[str, Any]] = {"consumer": Consumer, "producer": Producer, "admin": Admin}
_CLIENTS: Final[tuple[tuple[Side, Kind], ...]] = (
    ("source", "consumer"),
    ("source", "producer"),
    ("source", "admin"),
    ("target", "admin"),
)
_OF_CONNECTOR: Final = frozenset({"consumer.poll.timeout.ms", "admin.timeout.ms"})
"""Settings of the connectors with names that begin as those of clients do."""
_OF_JAVA: Final = frozenset(
    {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
     "metric.reporters", "interceptor.classes"}
)  # fmt: skip
"""Names in Java's configs that a mirror decides itself."""


def client_settings(props: Mapping[str, str], side: Side, kind: Kind) -> dict[str, str]:
    """Return the settings of a client."""
    known = _TABLES[kind]
    found = {
        name: value
        for name, value in beneath(props, f"{side}.cluster.").items()
        if known.find(name) is not None or name.startswith(("ssl.", "sasl."))
    }
    own = {name: value for name, value in props.items() if name not in _OF_CONNECTOR}
    found |= beneath(own, f"{kind}.") | beneath(own, f"{side}.{kind}.")
    return {name: value for name, value in found.items() if name not in _OF_JAVA}


def reads_committed(props: Mapping[str, str]) -> bool:
    """Whether a mirror leaves out records of the source that are not committed."""
    level = client_settings(props, "source", "consumer").get("isolation.level", "")
    return level.strip().lower() == "read_committed"


async def hidden_topics(source: AsyncAdmin, route: Route) -> str | None:
    """Return a line if topics of the source that are to be copied are hidden from the mirror's
    user, or may be; None if not."""
    try:
        await check_chosen_visible(source, route.takes, route.topics.names)
    except HiddenNames as error:
        return f"topics may be missing: {error}"
    return None


def client_problems(props: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the settings of clients that are unknown or wrong. No client is started."""
    for side, kind in _CLIENTS:
        try:
            _KINDS[kind](client_settings(props, side, kind))
        except BadSettings as error:
            for each in error.problems:
                prefixes = (f"{side}.{kind}.", f"{kind}.", f"{side}.cluster.")
                names = [prefix + each.name for prefix in prefixes]
                name = next((one for one in names if one in props), names[-1])
                hint = f'; did you mean "{each.nearest}"?' if each.nearest else ""
                yield Problem(name, f"{name}: {each.reason}{hint}")


def beneath(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings whose names begin with the prefix, without it."""
    return {
        name.removeprefix(prefix): value for name, value in props.items() if name.startswith(prefix)
    }


def open_admin(props: Mapping[str, str], side: Side, timeout_ms: int) -> Admin:
    """Return a started admin client. Raise RetriableError if the cluster does not answer."""
    settings: dict[str, Any] = {
        "client.id": f"moldau-mirror-{side}-admin",
        "default.api.timeout.ms": str(timeout_ms),
        **client_settings(props, side, "admin"),
    }
    return _started(Admin(settings), side)


def open_consumer(props: Mapping[str, str], side: Side) -> Consumer[bytes, bytes]:
    """Return a started consumer without a group."""
    return _started(Consumer(consumer_settings(props, side)), side)


def consumer_settings(props: Mapping[str, str], side: Side) -> dict[str, Any]:
    """Return the settings of a consumer without a group. It reads from the earliest record and
    does not bring deleted topics back, unless the user's settings say otherwise."""
    settings: dict[str, Any] = {
        "client.id": f"moldau-mirror-{side}-consumer",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "false",
        **client_settings(props, side, "consumer"),
        "enable.auto.commit": "false",
    }
    settings.pop("group.id", None)
    return settings


def open_producer(props: Mapping[str, str], side: Side) -> Producer[bytes, bytes]:
    """Return a started producer."""
    settings: dict[str, Any] = {
        "client.id": f"moldau-mirror-{side}-producer",
        **client_settings(props, side, "producer"),
        "acks": "all",
    }
    settings.pop("transactional.id", None)
    return _started(Producer(settings), side)


def _started(client: C, side: Side) -> C:
    try:
        client.start()
    except KafkaError as error:
        raise as_connect_error(error, f"the {side} cluster does not answer") from error
    return client


def as_connect_error(error: KafkaError, what: str) -> ConnectError:
    """Return the error for the worker: one that can pass by itself is retried."""
    kind = RetriableError if error.retriable else ConnectError
    return kind(f"{what}: {error}")


def ensure_compacted(admin: Admin, topic: str, replicas: int, setting: str) -> None:
    """Create an internal topic of one partition, unless it exists. Raise ConnectError, naming
    `setting`, if the cluster has too few brokers for the replicas."""
    configs = {"cleanup.policy": "compact"}
    try:
        admin.create_topic(NewTopic(topic, 1, replicas, configs))
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        if error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            raise ConnectError(
                f"the topic {topic} cannot have {counted(replicas, 'replica')} -> set "
                f"{setting} to the "
                "number of brokers or less; -1 takes the cluster's default"
            ) from error
        raise as_connect_error(error, f"the topic {topic} cannot be created") from error
