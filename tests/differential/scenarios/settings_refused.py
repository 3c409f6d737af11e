"""Settings at the edge of what may be set: where a value is bad only in force, or only for some."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.protocol.messages import describe_configs as describing
from moldau.protocol.messages import incremental_alter_configs as changing
from tests.differential.scenarios.dynamic_settings import APPEND, BROKER, DELETE, SET
from tests.differential.talk import Talk

TOPIC, CLIENT_METRICS, GROUP, SUBTRACT = 2, 16, 32, 3
_THROTTLED = "leader.replication.throttled.replicas"
_MAX_LAG = "log.cleaner.max.compaction.lag.ms"
Change = tuple[str, int, str | None]
OF_BROKERS: tuple[Change, ...] = (
    ("max.connections", SET, "0"),
    ("max.connection.creation.rate", SET, "0"),
    ("max.connection.creation.rate", SET, "1"),
    ("listener.name.plaintext.max.connections", SET, "0"),
    ("listener.name.plaintext.max.connection.creation.rate", SET, "0"),
    ("listener.name.elsewhere.max.connections", SET, "0"),
    ("listener.name.elsewhere.max.connection.creation.rate", SET, "0"),
    ("max.connections.per.ip.overrides", SET, "foo"),
    ("max.connections.per.ip.overrides", SET, "127.0.0.1:5"),
    ("log.roll.ms", SET, "0"),
    ("log.roll.ms", SET, "1"),
    (_MAX_LAG, SET, "5"),
    ("log.cleaner.min.cleanable.ratio", SET, "NaN"),
    ("min.insync.replicas", DELETE, None),
    ("min.insync.replicas", SET, "1"),
    ("min.insync.replicas", SET, "2"),
)
OF_SUBSCRIPTIONS: tuple[Change, ...] = (
    ("interval.ms", SET, "99"),
    ("metrics", APPEND, "c"),
    ("metrics", SUBTRACT, "a"),
    ("metrics", SET, ""),
    *(
        ("interval.ms", SET, value)
        for value in ("x", "", "99999999999", "-1", "1", "100", "3600001")
    ),
    *(("metrics", SET, value) for value in ("a,,b", ",", "a,a", "a, b", "a,")),
    *(("match", SET, value) for value in ("", ",", "client_id=x,,client_id=y")),
    ("match", SET, "client_id=x"),
    ("match", SET, "nope=x"),
    ("match", SET, "client_id"),
    ("match", SET, "client_id=["),
    ("match", APPEND, "client_software_name=x"),
    ("nope", SET, "1"),
)
TWO_OF_A_SUBSCRIPTION: tuple[tuple[Change, Change], ...] = (
    (("match", SET, "x"), ("interval.ms", SET, "9")),
    (("match", SET, "x"), ("interval.ms", SET, "x")),
    (("match", SET, ","), ("interval.ms", SET, "9")),
    (("match", SET, "x"), ("metrics", SET, ",")),
    (("metrics", SET, ","), ("interval.ms", SET, "9")),
    (("nope", SET, "1"), ("interval.ms", SET, "x")),
)
_LOCAL_MS, _LOCAL_BYTES = "log.local.retention.ms", "log.local.retention.bytes"
OF_LOCAL_RETENTION: tuple[tuple[Change, ...], ...] = (
    *(((_LOCAL_MS, SET, ms),) for ms in ("6", "-1", "-2")),
    *(((_LOCAL_BYTES, SET, size),) for size in ("6", "-1", "-2")),
    (("log.retention.ms", SET, "5"), (_LOCAL_MS, SET, "6")),
    (("log.retention.ms", SET, "5"), (_LOCAL_MS, SET, "5")),
    (("log.retention.ms", SET, "-1"), (_LOCAL_MS, SET, "6")),
    (("log.retention.ms", SET, "-1"), (_LOCAL_MS, SET, "-1")),
    (("log.retention.bytes", SET, "5"), (_LOCAL_BYTES, SET, "6")),
    (("log.retention.bytes", SET, "5"), (_LOCAL_BYTES, SET, "5")),
    (("log.retention.bytes", SET, "5"), (_LOCAL_BYTES, SET, "-1")),
)
LISTS = {TOPIC: ("cleanup.policy",), BROKER: ("log.cleanup.policy", "metric.reporters")}
IN_PLACES: tuple[tuple[int, str], ...] = (
    (APPEND, ""),
    (APPEND, ","),
    (APPEND, "compact,"),
    (APPEND, ",compact"),
    (APPEND, " compact "),
    (APPEND, "delete,delete"),
    (SUBTRACT, ""),
    (SUBTRACT, "delete"),
    (SUBTRACT, "nope"),
)


async def scenario(talk: Talk) -> None:
    await talk.topic("t")
    for broker in ("1", ""):
        for change in OF_BROKERS:
            label = f"{_shown(change)} of {broker or 'all'}"
            await talk.ask(label, changed(BROKER, broker, change), 1)
        lags = (("log.cleaner.min.compaction.lag.ms", SET, "10"), (_MAX_LAG, SET, "9"))
        await talk.ask(f"lags of {broker or 'all'}", changed(BROKER, broker, *lags), 1)
        for changes in OF_LOCAL_RETENTION:
            label = f"{', '.join(map(_shown, changes))} of {broker or 'all'}"
            await talk.ask(label, changed(BROKER, broker, *changes), 1)
    for name in ("01", "+1", "-1", " 1", "1.0", "x", "2"):
        await talk.ask(f"broker {name!r}", changed(BROKER, name, ("log.roll.ms", SET, "7")), 1)
    for change in OF_SUBSCRIPTIONS:
        await talk.ask(f"{_shown(change)}", changed(CLIENT_METRICS, "m", change), 1)
    for both in TWO_OF_A_SUBSCRIPTION:
        label = " and ".join(map(_shown, both))
        await talk.ask(label, changed(CLIENT_METRICS, "m", *both), 1)
    for kind, names in LISTS.items():
        for each in [(name, *how) for name in names for how in IN_PLACES]:
            resource = "t" if kind == TOPIC else "1"
            await talk.ask(f"{_shown(each)!r}", changed(kind, resource, each), 1)
    for group in ("", "g"):
        session = ("consumer.session.timeout.ms", APPEND, "")
        await talk.ask(f"no list of group {group!r}", changed(GROUP, group, session), 1)
    for number, replicas in enumerate((",", ",,", "0:1,,", "0:1,0:1", "0:1, 1:1")):
        await talk.topic(f"throttled-{number}", leader_replication_throttled_replicas=replicas)
        await talk.ask(f"throttled {replicas!r}", described(f"throttled-{number}"), 4)
    await talk.ask("throttled '*,*'", changed(TOPIC, "t", (_THROTTLED, SET, "*,*")), 1)
    ratio = "min.cleanable.dirty.ratio"
    for value in ("NaN", "0", "1", "1.1", "-0.1", "Infinity"):
        await talk.ask(f"{ratio}={value}", changed(TOPIC, "t", (ratio, SET, value)), 1)


def changed(
    resource_type: int, name: str, *changes: Change
) -> changing.IncrementalAlterConfigsRequest:
    """To be judged only: what one case sets, the next one does not see."""
    configs: Iterable[changing.AlterableConfig] = (
        changing.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    )
    resource = changing.AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=list(configs)
    )
    return changing.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def described(topic: str) -> describing.DescribeConfigsRequest:
    """The replicas of a topic that leaders throttle."""
    resource = describing.DescribeConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configuration_keys=[_THROTTLED],
    )
    return describing.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def _shown(change: Change) -> str:
    name, operation, value = change
    return f"{name} {('set to', 'deleted', 'with', 'without')[operation]} {value}"
