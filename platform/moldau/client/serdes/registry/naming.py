"""Names the subject of a schema, and finds the schema that values are written or read with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry.contract_rules import REFUSE, check_rules
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.settings import serdes as rows
from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.values.failures import SerializationFailed
from moldau.values.schema import DEPTH_MAX, Schema

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
    checks_rules: bool = True

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
            settings[rows.data_contract_rules] == REFUSE,
        )


async def references_of(
    registry: SchemaRegistry, schema: Schema, format: str | None
) -> dict[str, Schema]:
    """Return all schemas that a schema refers to by their names there, each after those that it
    needs itself. Raise ConfigError if they go in a circle."""
    found: dict[str, Schema] = {}

    async def add(schema: Schema, depth: int) -> None:
        if schema.references and not depth:
            raise ConfigError("the schema's references are too deep or go in a circle")
        for each in schema.references:
            if each.name not in found:
                version = await registry.version(each.subject, each.version)
                whole = version.schema
                if format is not None:
                    whole = await registry.schema(version.id, format=format)
                await add(whole, depth - 1)
                found[each.name] = whole

    await add(schema, DEPTH_MAX)
    return found


DEFAULT_OPTIONS: Final = SchemaOptions()


async def schema_to_read(
    registry: SchemaRegistry, options: SchemaOptions, key: int | str, format: str | None
) -> Schema:
    """Return the schema of an id or a GUID. Raise RulesNotRun if it has rules for reading."""
    if isinstance(key, int):
        schema = await registry.schema(key, format=format)
    else:
        schema = await registry.schema_by_guid(key, format=format)
    if options.checks_rules:
        check_rules(schema, is_write=False, id=key)
    return schema


async def schema_to_write(
    registry: SchemaRegistry, options: SchemaOptions, subject: str, own: Schema | None
) -> tuple[int, Schema]:
    """Return the id and the schema to write with: the one of `use.schema.id`, the latest of the
    subject, or the serializer's own, which is registered if that is allowed. Raise RulesNotRun if
    the registry has rules for it."""
    schema_id, schema = await _find(registry, options, subject, own)
    if options.checks_rules:
        check_rules(schema, is_write=True, subject=subject)
    return schema_id, schema


async def _find(
    registry: SchemaRegistry, options: SchemaOptions, subject: str, own: Schema | None
) -> tuple[int, Schema]:
    if options.use_id is not None:
        return options.use_id, await registry.schema(options.use_id)
    if own is not None and options.auto_register and not options.use_latest:
        schema_id = await registry.register(subject, own, normalize=options.normalize)
        if not options.checks_rules or own.rules is not None:
            return schema_id, own
        # A new version has the rules of the one before it.
        return schema_id, replace(own, rules=(await registry.schema(schema_id)).rules)
    try:
        if own is None or options.use_latest:
            latest = await registry.latest(subject)
            return latest.id, latest.schema
        found = await registry.lookup(subject, own, normalize=options.normalize)
        return found.id, replace(own, rules=found.schema.rules)
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
