"""The sink's settings: Confluent's keys, with Aiven's names and a few of moldau's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar, Final, Literal

from moldau.connect.api import Problem, key
from moldau.connectors.jdbc.columns import TableId, parse_table_id
from moldau.connectors.jdbc.settings import DatabaseConfig

KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")

# A reference to a config provider has a colon.
_PLACEHOLDER: Final = re.compile(r"\$\{[^}:]*\}")


class InsertMode(Enum):
    """How a record is written. Aiven's `multi` inserts many rows at once, as `insert` does here."""

    INSERT = "insert"
    MULTI = "multi"
    UPSERT = "upsert"
    UPDATE = "update"

    @property
    def needs_key(self) -> bool:
        return self in (InsertMode.UPSERT, InsertMode.UPDATE)


class KeyMode(Enum):
    """The source of a row's key."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


class SinkConfig(DatabaseConfig):
    """The settings of the JDBC sink."""

    open_prefixes: ClassVar[tuple[str, ...]] = (*DatabaseConfig.open_prefixes, "topic.")

    insert_mode: InsertMode = key(
        "insert.mode", InsertMode.INSERT, doc="insert, upsert (insert or update) or update.",
        importance="high", group="Writes",
    )  # fmt: skip
    batch_size: int = key(
        "batch.size", 3000, doc="How many records are written in one transaction.", group="Writes",
        ge=1,
    )  # fmt: skip
    delete_enabled: bool = key(
        "delete.enabled", False,
        doc="Delete the row when a record has no value; needs pk.mode=record_key.", group="Writes",
    )  # fmt: skip
    table_types: list[str] = key(
        "table.types", ["TABLE"],
        doc="Accepted: tables, partitioned tables and views can be written.", importance="low",
        group="Writes",
    )  # fmt: skip
    null_to_default: bool = key(
        "replace.null.with.default", True,
        doc="Write the default of a field's schema where its value is null.", importance="low",
        group="Writes",
    )  # fmt: skip
    table_format: str = key(
        "table.name.format", "${topic}", doc="Name of the table; ${topic} is the topic's name.",
        group="Data Mapping",
    )  # fmt: skip
    table_normalize: bool = key(
        "table.name.normalize", False,
        doc="Aiven's key: replace what is no letter, digit or _ in a table's name by _.",
        importance="low", group="Data Mapping",
    )  # fmt: skip
    table_mapping: list[str] = key(
        "topics.to.tables.mapping", [],
        doc="Aiven's key: topic:table, for topics whose tables have other names.", importance="low",
        group="Data Mapping",
    )  # fmt: skip
    key_mode: KeyMode = key(
        "pk.mode", KeyMode.NONE,
        doc="Where a row's key comes from: none, kafka, record_key or record_value.",
        importance="high", group="Data Mapping",
    )  # fmt: skip
    key_fields: list[str] = key(
        "pk.fields", [],
        doc="Names of the key's columns; topic.<topic>.pk.fields says it for one topic.",
        group="Data Mapping",
    )  # fmt: skip
    whitelist: list[str] = key(
        "fields.whitelist", [], doc="Fields of the value to write; empty writes all.",
        group="Data Mapping",
    )  # fmt: skip
    date_zone: Literal["DB_TIMEZONE", "UTC"] = key(
        "date.timezone", "DB_TIMEZONE", doc="Accepted: a date has no time zone here.",
        importance="low", group="Data Mapping",
    )  # fmt: skip
    timestamp_fields: list[str] = key(
        "timestamp.fields.list", [],
        doc="Fields with whole numbers that are times, in timestamp.precision.mode since 1970.",
        importance="low", group="Data Mapping",
    )  # fmt: skip
    timestamp_precision: Literal["microseconds", "nanoseconds"] = key(
        "timestamp.precision.mode", "microseconds",
        doc="The unit of the fields in timestamp.fields.list.", importance="low",
        group="Data Mapping",
    )  # fmt: skip
    text_column: str = key(
        "string.output.value.column.name", "record_value",
        doc="Column for values that are plain text.", importance="low", group="Data Mapping",
    )  # fmt: skip
    auto_create: bool = key("auto.create", False, doc="Create missing tables.", group="DDL Support")
    auto_evolve: bool = key(
        "auto.evolve", False, doc="Add missing columns to tables.", group="DDL Support"
    )
    holdlock: bool = key(
        "mssql.use.merge.holdlock", True, doc="Accepted: MERGE always holds its lock.",
        importance="low", group="Writes",
    )  # fmt: skip
    max_retries: int = key(
        "max.retries", 10, doc="How often a write is repeated after an error that may pass.",
        group="Retries", ge=0,
    )  # fmt: skip
    retry_backoff_ms: int = key(
        "retry.backoff.ms", 3000, doc="Milliseconds between two attempts.", group="Retries", ge=0,
    )  # fmt: skip
    trim_log: bool = key(
        "trim.sensitive.log", False, doc="Accepted: values of records are never logged.",
        importance="low", group="Writes",
    )  # fmt: skip
    exactly_once: bool = key(
        "exactly.once", False,
        doc="Keep the offsets in the table __connect_offsets, in the same transaction as the rows.",
        group="Writes",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        if self.insert_mode.needs_key and self.key_mode is KeyMode.NONE:
            mode = self.insert_mode.value
            yield Problem(
                "pk.mode", f"insert.mode={mode} needs a key: set pk.mode=record_key or record_value"
            )
        if self.delete_enabled and self.key_mode is not KeyMode.RECORD_KEY:
            yield Problem("delete.enabled", "delete.enabled=true needs pk.mode=record_key")
        if self.key_mode is KeyMode.KAFKA and len(self.key_fields) not in (0, 3):
            yield Problem(
                "pk.fields", "pk.mode=kafka needs three names: for topic, partition and offset"
            )
        if "table.name.format" not in self.wrong and not self.table_format.strip():
            yield Problem("table.name.format", "it is empty: write e.g. ${topic}")
        if _PLACEHOLDER.search(self.table_format.replace("${topic}", "")):
            yield Problem("table.name.format", "it may have ${topic}, and no other ${...}")
        for pair in self.table_mapping:
            if len(pair.split(":")) != 2 or not all(pair.split(":")):
                yield Problem("topics.to.tables.mapping", f"{pair!r} is not topic:table")

    def table_of(self, topic: str) -> TableId:
        """Return the table for a topic's records. Raise ValueError for an invalid name."""
        mapped = dict(pair.split(":", 1) for pair in self.table_mapping)
        if topic in mapped:
            return parse_table_id(mapped[topic])
        name = self.table_format.replace("${topic}", topic)
        if self.table_normalize:
            name = "".join(letter if letter.isalnum() else "_" for letter in name)
        return parse_table_id(name)

    def key_fields_of(self, topic: str) -> tuple[str, ...]:
        own = self.originals.get(f"topic.{topic}.pk.fields")
        if own is not None:
            return tuple(each.strip() for each in own.split(",") if each.strip())
        return tuple(self.key_fields)
