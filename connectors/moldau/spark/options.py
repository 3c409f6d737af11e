"""The options of the data source: names and rules of Spark's own Kafka source. No IO.

Invariants: option names ignore case, as everywhere in Spark; each problem is one line that names
the option, what was given and what is allowed; a parsed object is frozen and pickles.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.errors import ConfigError
from moldau.spark.durations import duration_ms

FORMATS: Final = ("binary", "string", "json", "avro", "protobuf")
KEY_FORMATS: Final = ("binary", "string", "json", "avro")
MODES: Final = ("permissive", "failfast", "skip", "rejects")
"""What becomes of a record whose key or value cannot be read: null, the end of the query, no row;
or only such records are rows."""
REGISTERED: Final = ("avro", "json", "protobuf")
SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_EDGES: Final = {"earliest": EARLIEST, "latest": LATEST}
_DEFAULT_MAX_DELAY_MS: Final = 15 * 60_000
_POLL_TIMEOUT_MS: Final = 120_000
_OFFSET_INTERVAL_MS: Final = 10
_OF_STREAMS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
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


@dataclass(frozen=True)
class Subscription:
    """Which partitions to read: exactly one of the three ways."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.partitions:
            return ",".join(str(each) for each in self.partitions)
        return self.pattern if self.pattern is not None else ",".join(self.topics)


@dataclass(frozen=True)
class Bound:
    """One end of what is read: by offset, by time, or an edge of the log for what is not named."""

    edge: int
    offsets: Mapping[TopicPartition, int] | None = None
    times_ms: Mapping[TopicPartition, int] | None = None
    time_ms: int | None = None
    text: str = ""
    """The option as it was given, for errors."""

    @property
    def is_by_time(self) -> bool:
        """Whether the cluster has to look offsets up by timestamp."""
        return self.time_ms is not None or self.times_ms is not None


@dataclass(frozen=True)
class ReadOptions:
    """Everything that a read is told."""

    settings: Mapping[str, str]
    subscription: Subscription
    starting: Bound
    ending: Bound
    fails_without_match: bool
    fail_on_data_loss: bool
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
    pushes_filters: bool

    @property
    def is_read_committed(self) -> bool:
        """Whether records of open and aborted transactions stay hidden."""
        return self.settings.get("isolation.level", "").lower() == "read_committed"


def client_settings(options: Options) -> dict[str, str]:
    """The options `kafka.*` without the prefix: a client's own settings."""
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
    """ConfigError names the first option that cannot be used. With `is_known` false, whether it is
    for a stream is not certain yet, and an end is let through."""
    given = {name.lower(): value for name, value in options.items()}
    settings = client_settings(options)
    for name, instead in _REFUSED.items():
        if name in settings:
            refuse(f"kafka.{name}", settings[name], instead)
    subscription = _subscription(given)
    if is_stream and is_known:
        for name in ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"):
            if name in given:
                refuse(name, given[name], "a stream has no end: use a batch read, or leave it out")
    interval_ms = _number(given, "fetchoffset.retryintervalms", least=0)
    found = ReadOptions(
        settings=settings,
        subscription=subscription,
        starting=_bound(given, "starting", LATEST if is_stream else EARLIEST, is_stream=is_stream),
        ending=_bound(given, "ending", LATEST, is_stream=is_stream),
        fails_without_match=_choice(
            given, "startingoffsetsbytimestampstrategy", ("error", "latest"), "error"
        )
        == "error",
        fail_on_data_loss=_flag(given, "failondataloss", default=True),
        include_headers=_flag(given, "includeheaders", default=False),
        include_raw=_flag(given, "includeraw", default=False),
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
        pushes_filters=_flag(given, "pushfilters", default=False),
    )
    _check_order(found)
    return found


def unused(options: Options, *, is_stream: bool) -> list[str]:
    """A line for each option that has no meaning in this read. Spark's own source warns of them
    too, so a job that has them is not refused."""
    given = {name.lower(): value for name, value in options.items()}
    found = []
    if not is_stream:
        of_streams = [name for name in _OF_STREAMS if name.lower() in given]
        found += [f"the option {name} is for streams: this batch does not use it"
                  for name in of_streams]  # fmt: skip
    if "groupidprefix" in given and "kafka.group.id" in given:
        found.append("the option groupIdPrefix is not used: kafka.group.id names the whole group")
    return found


def _check_order(found: ReadOptions) -> None:
    """What is least is no more than what is most, and no start is behind its end."""
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
            "a read cannot start behind its end: correct one of the two options",
            start=start.text,
            end=end.text,
        )


def _subscription(given: Options) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if name.lower() in given]
    if len(chosen) != 1:
        told = ", ".join(chosen) or "none of them"
        raise ConfigError(
            "give exactly one of the options assign, subscribe, subscribePattern", given=told
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
        for number in _assigned(numbers, text)
    ]
    if not found:
        refuse("assign", text, 'name partitions, for example {"orders":[0,1]}')
    return Subscription(partitions=tuple(sorted(set(found))))


def _assigned(numbers: object, text: str) -> Collection[int]:
    is_good = isinstance(numbers, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in numbers
    )
    if not is_good:
        refuse("assign", text, 'use lists of partition numbers, as in {"orders":[0,1]}')
    assert isinstance(numbers, list)
    return numbers


def _bound(given: Options, which: str, edge: int, *, is_stream: bool) -> Bound:
    """Time before times before offsets, as Spark's own source ranks them."""
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
        refuse(name, text, f"{wrong_edge} is no place where a batch can be {which}")
    return Bound(edge, offsets=offsets, text=f"{name}={text}")


def _by_partition(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """{"topic":{"0":23}} as partitions and numbers."""
    example = '{"orders":{"0":23,"1":-2}}'
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(name, text).items():
        if not isinstance(numbers, dict):
            refuse(name, text, f"use a number for each partition, as in {example}")
        for partition, number in numbers.items():
            is_good = partition.isdigit() and isinstance(number, int) and number >= least
            if not is_good:
                refuse(name, text, f"use a number for each partition, as in {example}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json_object(name: str, text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        refuse(name, text, "it is neither a keyword nor a JSON object")
    return found


def _group(given: Options, settings: Options, subscription: Subscription) -> str | None:
    """The group that offsets are committed for; None where none was asked for."""
    own = settings.get("group.id")
    if own is not None:
        return own
    prefix = given.get("groupidprefix")
    return None if prefix is None else f"{prefix}-{subscription}"


def _registry(given: Options, subscription: Subscription) -> str | None:
    """Where the schemas of the values are."""
    url, kind = given.get("value.registry", "").strip(), given.get("value.format", "binary").lower()
    if kind == "protobuf" and not url:
        refuse("value.registry", "", "value.format=protobuf needs it: http://localhost:8081")
    if not url:
        return None
    if kind not in REGISTERED:
        refuse("value.registry", url, f"it is for value.format={', '.join(REGISTERED)}")
    if not subscription.topics:
        refuse("value.registry", url, "name the topics by subscribe: the first has the schema")
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


def _flag(given: Options, name: str, *, default: bool) -> bool:
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
    """One line: which option, what was given, what to do."""
    raise ConfigError(instead, option=option, value=value)
