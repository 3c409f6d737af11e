"""Parse the options of the data source. Names and rules are those of Spark's Kafka source. No IO.

Invariants: option names ignore case, as everywhere in Spark. Each error is one line with the
option, the given value and what is allowed. A parsed object is frozen and can be pickled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.deferred import dataclass
from moldau.errors import ConfigError

FORMATS: Final = ("binary", "string", "json", "avro", "protobuf")
KEY_FORMATS: Final = ("binary", "string", "json", "avro")
MODES: Final = ("permissive", "failfast", "skip", "rejects")
"""What to do with a record whose key or value cannot be read.

`permissive` reads it as null. `failfast` ends the query. `skip` leaves the record out. `rejects`
gives only such records."""
CONTRACT_RULES: Final = "data.contract.rules"
REGISTERED: Final = ("avro", "json", "protobuf")
SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_EDGES: Final = {"earliest": EARLIEST, "latest": LATEST}
_DEFAULT_MAX_DELAY_MS: Final = 15 * 60_000
_POLL_TIMEOUT_MS: Final = 120_000
_OFFSET_INTERVAL_MS: Final = 10
_STREAM_OPTIONS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_REFUSED: Final = MappingProxyType(
    {
        "auto.offset.reset": "use the option startingOffsets",
        "key.deserializer": "keys are bytes: cast them in the query",
        "value.deserializer": "values are bytes: cast them, or use the option value.format",
        "enable.auto.commit": "Spark keeps offsets in its checkpoint",
        "interceptor.classes": "interceptors would break the replay of a batch",
    }
)

Options = Mapping[str, str]

_UNITS_MS: Final = {
    "": 1, "ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000,
    "min": 60_000, "minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000,
    "day": 86_400_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True)
class Subscription:
    """The partitions to read: by topic, by pattern, or by partition. Exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.partitions:
            return ",".join(str(each) for each in self.partitions)
        return self.pattern if self.pattern is not None else ",".join(self.topics)


@dataclass(frozen=True)
class Bound:
    """The start or end of a read: by offset, by time, or at an edge of the log.

    `edge` is EARLIEST or LATEST. It counts for partitions that the other fields do not name."""

    edge: int
    offsets: Mapping[TopicPartition, int] | None = None
    times_ms: Mapping[TopicPartition, int] | None = None
    time_ms: int | None = None
    text: str = ""
    """The option as the user wrote it, for errors."""

    @property
    def is_by_time(self) -> bool:
        """Whether the cluster must look up the offsets by timestamp."""
        return self.time_ms is not None or self.times_ms is not None


@dataclass(frozen=True)
class ReadOptions:
    """The parsed options of a read."""

    settings: Mapping[str, str]
    subscription: Subscription
    starting: Bound
    ending: Bound
    fails_without_match: bool
    fail_on_data_loss: bool
    has_topic_ids: bool
    """Whether the offsets of a stream have the ids of the topics. Spark's own source refuses such a
    checkpoint."""
    include_headers: bool
    include_raw: bool
    group: str | None
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    poll_timeout_ms: int
    offset_tries: int
    offset_interval_ms: int
    key_format: str
    key_schema: str | None
    value_format: str
    value_schema: str | None
    value_mode: str
    is_value_framed: bool
    value_registry: str | None
    checks_rules: bool
    """Whether schemas of the registry with rules (a data contract) are refused."""
    pushes_filters: bool

    @property
    def is_read_committed(self) -> bool:
        """Whether the read leaves out records of open and aborted transactions."""
        return self.settings.get("isolation.level", "").lower() == "read_committed"


def client_settings(options: Options) -> dict[str, str]:
    """Return the settings of the Kafka client: the options `kafka.*` without their prefix."""
    prefix = "kafka."
    found = {
        name[len(prefix) :].lower(): value
        for name, value in options.items()
        if name.lower().startswith(prefix)
    }
    if not found.get("bootstrap.servers", "").strip():
        refuse("kafka.bootstrap.servers", "", "give the brokers, for example localhost:9092")
    return found


def parse_read(options: Options, *, is_stream: bool, is_known: bool = True) -> ReadOptions:
    """Parse the options of a read. Raises ConfigError, which names the first wrong option.

    `is_known` is false when Spark has not said yet whether the read is a stream. Then options for
    the end of the read are accepted."""
    given = {name.lower(): value for name, value in options.items()}
    settings = client_settings(options)
    for name, instead in _REFUSED.items():
        if name in settings:
            refuse(f"kafka.{name}", settings[name], instead)
    subscription = _subscription(given)
    if is_stream and is_known:
        for name in ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"):
            if name in given:
                refuse(
                    name,
                    given[name],
                    "a stream has no end: leave this option out, or use a batch read",
                )
    interval_ms = _number(given, "fetchoffset.retryintervalms", least=0)
    found = ReadOptions(
        settings=settings,
        subscription=subscription,
        starting=_parse_bound(
            given, "starting", LATEST if is_stream else EARLIEST, is_stream=is_stream
        ),
        ending=_parse_bound(given, "ending", LATEST, is_stream=is_stream),
        fails_without_match=_choice(
            given, "startingoffsetsbytimestampstrategy", ("error", "latest"), "error"
        )
        == "error",
        fail_on_data_loss=parse_flag(given, "failondataloss", default=True),
        has_topic_ids=parse_flag(given, "topicids", default=True),
        include_headers=parse_flag(given, "includeheaders", default=False),
        include_raw=parse_flag(given, "includeraw", default=False),
        group=_group(given, settings, subscription),
        max_offsets=_number(given, "maxoffsetspertrigger"),
        min_offsets=_number(given, "minoffsetspertrigger"),
        max_delay_ms=_duration(given, "maxtriggerdelay", _DEFAULT_MAX_DELAY_MS),
        min_partitions=_number(given, "minpartitions"),
        max_records_per_partition=_number(given, "maxrecordsperpartition"),
        poll_timeout_ms=_number(given, "kafkaconsumer.polltimeoutms") or _POLL_TIMEOUT_MS,
        offset_tries=_number(given, "fetchoffset.numretries") or 1,
        offset_interval_ms=_OFFSET_INTERVAL_MS if interval_ms is None else interval_ms,
        key_format=_choice(given, "key.format", KEY_FORMATS, "binary"),
        key_schema=given.get("key.schema"),
        value_format=_choice(given, "value.format", FORMATS, "binary"),
        value_schema=given.get("value.schema"),
        value_mode=_choice(given, "value.mode", MODES, "permissive"),
        is_value_framed=_choice(given, "value.framing", ("none", "confluent"), "none")
        == "confluent",
        value_registry=_registry(given, subscription),
        checks_rules=_choice(given, CONTRACT_RULES, ("refuse", "ignore"), "refuse") == "refuse",
        pushes_filters=parse_flag(given, "pushfilters", default=False),
    )
    _check_order(found)
    return found


def unused_options(options: Options, *, is_stream: bool) -> list[str]:
    """Return a warning for each option that has no effect in this read.

    Such an option is no error, because Spark's own source only warns as well."""
    given = {name.lower(): value for name, value in options.items()}
    found = []
    if not is_stream:
        stream_options = [name for name in _STREAM_OPTIONS if name.lower() in given]
        found += [f"the option {name} is for streams: this batch read ignores it"
                  for name in stream_options]  # fmt: skip
    if "groupidprefix" in given and "kafka.group.id" in given:
        found.append("the option groupIdPrefix is ignored: kafka.group.id names the whole group")
    return found


def _check_order(found: ReadOptions) -> None:
    """Check that minimum <= maximum for the size of a batch, and that no start is after its end."""
    least, most = found.min_offsets, found.max_offsets
    if least is not None and most is not None and least > most:
        refuse("minOffsetsPerTrigger", str(least), f"use no more than maxOffsetsPerTrigger={most}")
    start, end = found.starting, found.ending
    is_late = start.time_ms is not None and end.time_ms is not None and start.time_ms > end.time_ms
    for starts, ends in ((start.offsets, end.offsets), (start.times_ms, end.times_ms)):
        for where, number in (starts or {}).items():
            is_late = is_late or number > (ends or {}).get(where, number) >= 0
    if is_late:
        raise ConfigError(
            "a read cannot start after its end: correct one of the two options",
            start=start.text,
            end=end.text,
        )


def _subscription(given: Options) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if name.lower() in given]
    if len(chosen) != 1:
        raise ConfigError(
            "give exactly one of the options assign, subscribe, subscribePattern",
            given=", ".join(chosen) or "none of them",
        )
    name = chosen[0]
    text = given[name.lower()].strip()
    if not text:
        refuse(name, text, "it is empty: name the topics")
    if name == "subscribePattern":
        return Subscription(pattern=text)
    if name == "subscribe":
        return Subscription(topics=tuple(each.strip() for each in text.split(",") if each.strip()))
    found = [
        TopicPartition(topic, number)
        for topic, numbers in _json_object("assign", text).items()
        for number in _partition_numbers(numbers, text)
    ]
    if not found:
        refuse("assign", text, 'name partitions, for example {"orders":[0,1]}')
    return Subscription(partitions=tuple(sorted(set(found))))


def _partition_numbers(numbers: object, text: str) -> Collection[int]:
    is_good = isinstance(numbers, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in numbers
    )
    if not is_good:
        refuse("assign", text, 'use lists of partition numbers, as in {"orders":[0,1]}')
    assert isinstance(numbers, list)
    return numbers


def _parse_bound(given: Options, which: str, edge: int, *, is_stream: bool) -> Bound:
    """Parse the start or end of a read.

    As in Spark's own source, one time for all partitions wins over a time for each partition, and
    both win over offsets."""
    time = given.get(f"{which}timestamp")
    if time is not None:
        if not time.strip().isdigit():
            refuse(f"{which}Timestamp", time, "use milliseconds since 1970")
        return Bound(edge, time_ms=int(time), text=f"{which}Timestamp={time}")
    name = f"{which}OffsetsByTimestamp"
    text = given.get(name.lower())
    if text is not None:
        times = _by_partition(name, text, least=0)
        return Bound(edge, times_ms=times, text=f"{name}={text}")
    name = f"{which}Offsets"
    text = given.get(name.lower())
    if text is None:
        return Bound(edge)
    word = text.strip().lower()
    if word in _EDGES:
        if which == "ending" and word == "earliest":
            refuse(name, text, "a batch cannot end at the earliest offset: use latest or offsets")
        if which == "starting" and word == "latest" and not is_stream:
            refuse(name, text, "a batch cannot start at the latest offset: use earliest or offsets")
        return Bound(_EDGES[word], text=f"{name}={text}")
    offsets = _by_partition(name, text, least=EARLIEST)
    wrong_edge = EARLIEST if which == "ending" else LATEST
    if not (which == "starting" and is_stream) and wrong_edge in offsets.values():
        word = "start" if which == "starting" else "end"
        refuse(name, text, f"a batch cannot {word} at {wrong_edge}: give another offset")
    return Bound(edge, offsets=offsets, text=f"{name}={text}")


def _by_partition(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """Parse JSON such as {"topic":{"0":23}} to a number for each partition."""
    example = '{"orders":{"0":23,"1":-2}}'
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(name, text).items():
        if not isinstance(numbers, dict):
            refuse(name, text, f"use a number for each partition, as in {example}")
        for partition, number in numbers.items():
            is_partition = partition.isascii() and partition.isdigit()
            # The type of `true` is bool, which is an int to isinstance.
            if not (is_partition and type(number) is int and number >= least):
                refuse(name, text, f"use a number for each partition, as in {example}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json_object(name: str, text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        refuse(name, text, "it must be a keyword or a JSON object")
    return found


def _group(given: Options, settings: Options, subscription: Subscription) -> str | None:
    """Return the group to commit offsets for, or None if the options name none."""
    own = settings.get("group.id")
    if own is not None:
        return own
    prefix = given.get("groupidprefix")
    return None if prefix is None else f"{prefix}-{subscription}"


def _registry(given: Options, subscription: Subscription) -> str | None:
    """Return the address of the Schema Registry, or None if the options name none."""
    url, kind = given.get("value.registry", "").strip(), given.get("value.format", "binary").lower()
    if kind == "protobuf" and not url:
        refuse(
            "value.registry",
            "",
            "value.format=protobuf needs it, for example http://localhost:8081",
        )
    if not url:
        return None
    if kind not in REGISTERED:
        refuse("value.registry", url, f"it is only for value.format={', '.join(REGISTERED)}")
    if not subscription.topics:
        refuse(
            "value.registry",
            url,
            "name the topics with the option subscribe: the first topic gives the schema",
        )
    return url


def _number(given: Options, name: str, *, least: int = 1) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < least:
        refuse(name, text, f"use a whole number, {least} or more")
    return int(text)


def _duration(given: Options, name: str, default: int) -> int:
    text = given.get(name)
    return default if text is None else duration_ms(name, text)


def parse_flag(given: Options, name: str, *, default: bool) -> bool:
    """Return an option that is true or false. `given` has the names in lower case."""
    text = given.get(name)
    if text is None:
        return default
    return _choice(given, name, ("true", "false"), "") == "true"


def _choice(given: Options, name: str, allowed: Collection[str], default: str) -> str:
    text = given.get(name)
    if text is None:
        return default
    if text.strip().lower() not in allowed:
        refuse(name, text, f"use one of {', '.join(allowed)}")
    return text.strip().lower()


def refuse(option: str, value: str, instead: str) -> NoReturn:
    """Raise ConfigError with the option, the given value, and what to do instead."""
    raise ConfigError(instead, option=option, value=value)


def duration_ms(option: str, text: str) -> int:
    """Parse a duration to milliseconds. Raises ConfigError, which names `option`."""
    found = _DURATION.fullmatch(text.strip().lower())
    unit = None if found is None else found[2]
    if unit is not None and unit not in _UNITS_MS:
        unit = unit.removesuffix("s")
    if found is None or unit not in _UNITS_MS:
        raise ConfigError("use a time such as 15m or 10 seconds", option=option, value=text)
    return int(found[1]) * _UNITS_MS[unit]
