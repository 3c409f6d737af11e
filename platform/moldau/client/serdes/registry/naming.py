"""Names the subject of a schema, and finds the schema that a serializer writes with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.client.serdes.contract import Place, SerializationFailed
from moldau.client.serdes.registry.schemas import RegistryError, Schema
from moldau.client.settings import serdes as rows
from moldau.config import Settings
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry

SubjectName = Callable[[Place, str | None], str]
"""Returns the subject for a place and the name of the record or message, if it has one."""


def topic_subject(place: Place, name: str | None) -> str:
    """Return `<topic>-<side>`, such as `orders-value`: one schema for each side of a topic."""
    return f"{place.topic}-{place.side}"


def record_subject(place: Place, name: str | None) -> str:
    """Return the schema's own name, which is the same in all topics."""
    return _needed(name)


def topic_record_subject(place: Place, name: str | None) -> str:
    """Return `<topic>-<name>`, such as `orders-shop.Order`: a topic can have several schemas."""
    return f"{place.topic}-{_needed(name)}"


def _needed(name: str | None) -> str:
    if not name:
        raise SerializationFailed(
            "its schema has no name, which the subject name strategy needs; use the topic strategy"
        )
    return name


_JAVA: Final = "io.confluent.kafka.serializers.subject."
STRATEGIES: Final[dict[str, SubjectName]] = {
    "topic": topic_subject,
    "record": record_subject,
    "topic-record": topic_record_subject,
    f"{_JAVA}TopicNameStrategy": topic_subject,
    f"{_JAVA}RecordNameStrategy": record_subject,
    f"{_JAVA}TopicRecordNameStrategy": topic_record_subject,
}


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a serde finds and uses schemas. The settings of the same names explain each field."""

    subject: SubjectName = topic_subject
    auto_register: bool = True
    normalize: bool = False
    use_latest: bool = False
    use_id: int | None = None
    validates: bool = True

    @classmethod
    def of(cls, settings: Settings, *, is_key: bool) -> SchemaOptions:
        """Return the options in the settings. Raise ConfigError for an unknown strategy."""
        row = rows.key_subject_strategy if is_key else rows.value_subject_strategy
        strategy = STRATEGIES.get(settings[row])
        if strategy is None:
            raise ConfigError(
                "no such subject name strategy",
                setting=row.name,
                given=settings[row],
                known=list(STRATEGIES)[:3],
            )
        schema_id = settings[rows.use_schema_id]
        return cls(
            strategy,
            settings[rows.auto_register],
            settings[rows.normalize_schemas],
            settings[rows.use_latest_version],
            None if schema_id < 0 else schema_id,
            settings[rows.fails_invalid],
        )


DEFAULT_OPTIONS: Final = SchemaOptions()


async def find_schema(
    registry: SchemaRegistry, options: SchemaOptions, subject: str, own: Schema | None
) -> tuple[int, Schema]:
    """Return the id and the schema to write with: the one of `use.schema.id`, the latest of the
    subject, or the serializer's own, which is registered if that is allowed."""
    if options.use_id is not None:
        return options.use_id, await registry.schema(options.use_id)
    if own is not None and options.auto_register and not options.use_latest:
        return await registry.register(subject, own, normalize=options.normalize), own
    try:
        if own is None or options.use_latest:
            latest = await registry.latest(subject)
            return latest.id, latest.schema
        found = await registry.lookup(subject, own, normalize=options.normalize)
        return found.id, own
    except RegistryError as error:
        if not error.is_of_record:
            raise
        raise _advised(error, options, own) from error


def _advised(error: RegistryError, options: SchemaOptions, own: Schema | None) -> RegistryError:
    """Return the error with advice on how to give the registry a schema to write with."""
    if own is None:
        advice = "the serializer has no schema of its own: give it one, or register one"
    elif options.use_latest:
        advice = "use.latest.version is set: register a schema first"
    else:
        advice = "auto.register.schemas is false: register the schema first"
    facts = {name: error.context[name] for name in error.context.keys() - {"status", "code"}}
    return RegistryError(
        f"{error.reason.rstrip('.')}; {advice}",
        status=error.status,
        code=error.code,
        retriable=error.retriable,
        **facts,
    )
