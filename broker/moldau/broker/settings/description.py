"""Describe settings for DescribeConfigs: the value, its source, and the values behind it.

The order and the oddities are Kafka's, because tools compare them: sources count before names,
synonyms begin with the requested name, `log.retention.ms` is null if only hours were given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from moldau.broker.settings import log
from moldau.broker.settings.dynamic import listener_row
from moldau.broker.settings.quota import (
    follower_replication_throttled_rate,
    leader_replication_throttled_rate,
    replica_alter_log_dirs_io_max_bytes_per_second,
)
from moldau.broker.settings.resource import ResourceSettings
from moldau.broker.settings.tables import GROUP_SETTINGS, INTERNAL
from moldau.config import DOUBLE, GivenValue, Settings, SourceKind, UpdateMode
from moldau.config.setting import Absent
from moldau.config.table import Row
from moldau.deferred import dataclass

# Kafka knows these only while they are set: they have no default.
_THROTTLES = frozenset(
    (
        follower_replication_throttled_rate,
        leader_replication_throttled_rate,
        replica_alter_log_dirs_io_max_bytes_per_second,
    )
)
_TOLD_IF_GIVEN = INTERNAL | {row.name for row in _THROTTLES}
_UNKNOWN_KIND = 0
_DEFAULT = SourceKind.DEFAULT.code
_DYNAMIC_DEFAULT = SourceKind.DYNAMIC_DEFAULT.code
_DYNAMIC = (SourceKind.DYNAMIC_DEFAULT, SourceKind.DYNAMIC_BROKER)
_FINER: Mapping[Row, tuple[Row, ...]] = {
    log.log_retention_hours: (log.log_retention_minutes, log.log_retention_ms),
    log.log_retention_minutes: (log.log_retention_ms,),
    log.log_roll_hours: (log.log_roll_ms,),
    log.log_roll_jitter_hours: (log.log_roll_jitter_ms,),
    log.log_flush_scheduler_interval_ms: (log.log_flush_interval_ms,),
}
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-3, 1e7


@dataclass(frozen=True, slots=True)
class EntrySynonym:
    """The effective value, or one that would be effective without those before it."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting in the form of DescribeConfigs. `kind` and `source` are its numbers."""

    name: str
    value: str | None
    source: int
    kind: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[EntrySynonym, ...]
    doc: str | None


def describe_broker(settings: Settings) -> Iterator[ConfigEntry]:
    """Yield every setting of this broker, and the given ones of its listeners and plugins."""
    for row in settings.table:
        if row.name not in _TOLD_IF_GIVEN or settings.is_given(row):
            yield _broker_entry(settings, row)
    for name in settings.others:
        yield _listener_entry(settings, name)


def describe_all_brokers(settings: Settings) -> Iterator[ConfigEntry]:
    """Yield the dynamic settings that all brokers share: those that were set by this name, not by a
    name that would count instead of it."""
    for entry in describe_broker(settings):
        shared = tuple(each for each in entry.synonyms if each.source == _DYNAMIC_DEFAULT)
        if shared and shared[0].name == entry.name:
            yield ConfigEntry(
                entry.name,
                shared[0].value,
                _DYNAMIC_DEFAULT,
                entry.kind,
                entry.is_read_only,
                entry.is_sensitive,
                shared,
                entry.doc,
            )


def describe_resource(settings: ResourceSettings) -> Iterator[ConfigEntry]:
    """Yield every setting of a topic or a group."""
    for row in settings.own.table:
        if row.name in INTERNAL and not settings.is_given(row):
            continue
        default = settings.default(row)
        value = written(row, settings[row])
        synonyms: tuple[EntrySynonym, ...] = ()
        if default is not None:
            synonyms = _synonyms(settings.broker, default.setting)
        elif _is_of_group(settings.own):
            synonyms = (EntrySynonym(row.name, written(row, row.default), _DEFAULT),)
        if settings.is_given(row):
            own = EntrySynonym(row.name, value, settings.own.source(row).kind.code)
            synonyms = (own, *synonyms)
        yield _entry(row, value, synonyms, is_read_only=False)


def describe_client_metrics(settings: Settings) -> Iterator[ConfigEntry]:
    """Yield every setting of a client metrics subscription."""
    for row in settings.table:
        value = written(row, settings[row])
        given = settings.is_given(row)
        source = settings.source(row).kind.code
        synonyms = (EntrySynonym(row.name, value, source),) if given else ()
        yield _entry(row, value, synonyms, is_read_only=False)


def _broker_entry(settings: Settings, row: Row) -> ConfigEntry:
    if settings.is_given(row) and not _is_displaced(settings, row):
        value = settings.describe(row).text
        if row.kind is DOUBLE and value is not None:
            value = written(row, settings[row])
    else:
        value = None if isinstance(row.default, Absent) else written(row, row.default)
    is_read_only = row.dynamic is UpdateMode.READ_ONLY
    return _entry(row, value, _synonyms(settings, row), is_read_only=is_read_only)


def _is_displaced(settings: Settings, row: Row) -> bool:
    """Whether a dynamic value in a finer unit makes Kafka ignore the file's value here."""
    return any(settings.source(finer).kind in _DYNAMIC for finer in _FINER.get(row, ()))


def _entry(
    row: Row, value: str | None, synonyms: Sequence[EntrySynonym], *, is_read_only: bool
) -> ConfigEntry:
    return ConfigEntry(
        name=row.name,
        value=value,
        source=synonyms[0].source if synonyms else _DEFAULT,
        kind=row.kind.code,
        is_read_only=is_read_only,
        is_sensitive=row.secret,
        synonyms=tuple(synonyms),
        doc=row.doc,
    )


def _listener_entry(settings: Settings, name: str) -> ConfigEntry:
    """Return the entry of a name in no table. Its value is shown only if its row is known."""
    row = listener_row(name)
    is_sensitive = row is None or row.secret
    own = [
        EntrySynonym(name, None if is_sensitive else _shown(given), given.source.kind.code)
        for given in reversed(settings.given_for(name))
    ]
    behind = () if row is None else _synonyms(settings, row)
    return ConfigEntry(
        name=name,
        value=own[0].value,
        source=own[0].source,
        kind=_UNKNOWN_KIND if row is None else row.kind.code,
        is_read_only=True,
        is_sensitive=is_sensitive,
        synonyms=tuple(_by_source((*own, *behind))),
        doc=None if row is None else row.doc,
    )


def _shown(given: GivenValue) -> str | None:
    shown = given.showable
    return ",".join(shown) if isinstance(shown, tuple) else shown


def _synonyms(settings: Settings, row: Row) -> tuple[EntrySynonym, ...]:
    """Return the values in their precedence: by source, then from fine to coarse units. Values
    before the first one of the row's own name are left out."""
    chain = [row]
    while chain[-1].fallback is not None and chain[-1] is not log.log_dirs:
        chain.append(chain[-1].fallback.setting)
    names = {each.name: each for each in chain}
    found = [
        EntrySynonym(
            synonym.name,
            written(names[synonym.name], names[synonym.name].default)
            if synonym.source.kind is SourceKind.DEFAULT
            else synonym.text,
            synonym.source.kind.code,
        )
        for synonym in settings.describe(row).synonyms
        if synonym.name in names
        and not (row in _THROTTLES and synonym.source.kind is SourceKind.DEFAULT)
    ]
    ordered = list(_by_source(found))
    first = next((at for at, each in enumerate(ordered) if each.name == row.name), len(ordered))
    return tuple(ordered[first:])


def _by_source(synonyms: Sequence[EntrySynonym]) -> Iterator[EntrySynonym]:
    """Yield the first value of each name and source: a file and the environment are one source."""
    seen = set()
    for each in sorted(synonyms, key=lambda synonym: synonym.source):
        if (each.name, each.source) not in seen:
            seen.add((each.name, each.source))
            yield each


def _is_of_group(own: Settings) -> bool:
    """Whether these are a group's settings. Kafka shows the plain default of a group's setting, but
    not of a topic's."""
    return own.table is GROUP_SETTINGS


def written(row: Row, value: Any) -> str | None:
    """Return a value in Kafka's form; null for every secret."""
    if row.kind is DOUBLE and value is not None:
        return java_double(value)
    return row.write(value)


def java_double(value: float) -> str:
    """Return a number in Java's form: with a point, with `E` outside 0.001 to 10,000,000."""
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"
