"""Turn rows into records: columns `value`, `key`, `headers` and `timestamp` of the data source."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from moldau.connectors.spark.avro_values import AvroValues
from moldau.deferred import dataclass
from moldau.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Which columns of a row become the key, the value, the headers and the timestamp."""

    value_format: str = "json"
    key_columns: Sequence[str] = ()
    timestamp_column: str | None = None
    header_columns: Sequence[str] = ()
    avro: AvroValues | None = None

    def to_records(self, rows: Any) -> Any:
        """Return a DataFrame that the data source can write. ConfigError names missing columns."""
        if self.value_format == "columns":
            return rows
        named = self._named_columns()
        missing = [name for name in named if name not in rows.columns]
        if missing:
            raise ConfigError(
                "the rows lack columns: check key.columns, headers.columns and timestamp.column",
                missing=", ".join(missing),
                columns=", ".join(rows.columns),
            )
        columns = [self._value(rows).alias("value")]
        if self.key_columns:
            columns.append(self._key().alias("key"))
        if self.header_columns:
            columns.append(self._headers().alias("headers"))
        if self.timestamp_column:
            timestamp = _functions().col(self.timestamp_column).cast("timestamp")
            columns.append(timestamp.alias("timestamp"))
        records = rows.select(*columns)
        return records if self.avro is None else self.avro.encode(records)

    def _named_columns(self) -> list[str]:
        """Return the columns of the key, the headers and the timestamp."""
        timestamp = [self.timestamp_column] if self.timestamp_column else []
        return [*self.key_columns, *self.header_columns, *timestamp]

    def _value(self, rows: Any) -> Any:
        f = _functions()
        if self.avro is not None:
            return f.struct(*map(_quote, self.avro.value_columns(rows, self._named_columns())))
        if self.value_format == "json":
            return f.to_json(f.struct("*"))
        named = self._named_columns()
        others = [name for name in rows.columns if name not in named]
        if len(others) != 1:
            raise ConfigError(
                "value.format=string needs one column beside those of the key, the headers and "
                "the timestamp: select it, or use json",
                columns=", ".join(others) or "none",
            )
        return f.col(others[0]).cast("string")

    def _key(self) -> Any:
        f = _functions()
        if len(self.key_columns) == 1:
            return f.col(self.key_columns[0]).cast("string")
        return f.to_json(f.struct(*self.key_columns))

    def _headers(self) -> Any:
        f = _functions()
        pairs = (
            f.struct(
                f.lit(name).alias("key"), f.col(name).cast("string").cast("binary").alias("value")
            )
            for name in self.header_columns
        )
        return f.array(*pairs)


def _quote(column: str) -> str:
    """Return a column's name in backquotes, for places where Spark reads names as expressions."""
    return f"`{column.replace('`', '``')}`"


def _functions() -> Any:
    return import_module("pyspark.sql.functions")
