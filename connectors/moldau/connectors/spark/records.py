"""Rows as records: the columns `value`, `key`, `headers` and `timestamp` of the data source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from moldau.connectors.spark.avro_values import AvroValues
from moldau.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a row go where."""

    value_format: str = "json"
    keys: Sequence[str] = ()
    timestamp: str | None = None
    headers: Sequence[str] = ()
    avro: AvroValues | None = None

    def records(self, rows: Any) -> Any:
        """A DataFrame that the data source can write; ConfigError names missing columns."""
        if self.value_format == "columns":
            return rows
        named = [*self.keys, *self.headers, *([self.timestamp] if self.timestamp else [])]
        missing = [name for name in named if name not in rows.columns]
        if missing:
            raise ConfigError(
                "the rows lack columns: check key.columns, headers.columns and timestamp.column",
                missing=", ".join(missing),
                columns=", ".join(rows.columns),
            )
        found = [self._value(rows).alias("value")]
        if self.keys:
            found.append(self._key().alias("key"))
        if self.headers:
            found.append(self._headers().alias("headers"))
        if self.timestamp:
            found.append(_functions().col(self.timestamp).cast("timestamp").alias("timestamp"))
        records = rows.select(*found)
        return records if self.avro is None else self.avro.encoded(records)

    def _value(self, rows: Any) -> Any:
        f = _functions()
        if self.avro is not None:
            elsewhere = [*self.keys, *self.headers, *([self.timestamp] if self.timestamp else [])]
            return f.struct(*map(_quoted, self.avro.columns(rows, elsewhere)))
        if self.value_format == "json":
            return f.to_json(f.struct("*"))
        named = {*self.keys, *self.headers, self.timestamp}
        left = [name for name in rows.columns if name not in named]
        if len(left) != 1:
            raise ConfigError(
                "value.format=string needs one column beside those of the key, the headers and "
                "the timestamp: select it, or use json",
                columns=", ".join(left) or "none",
            )
        return f.col(left[0]).cast("string")

    def _key(self) -> Any:
        f = _functions()
        if len(self.keys) == 1:
            return f.col(self.keys[0]).cast("string")
        return f.to_json(f.struct(*self.keys))

    def _headers(self) -> Any:
        f = _functions()
        pairs = (
            f.struct(
                f.lit(name).alias("key"),
                f.col(name).cast("string").cast("binary").alias("value"),
            )
            for name in self.headers
        )
        return f.array(*pairs)


def _quoted(column: str) -> str:
    """A column's name as Spark has it where names may be expressions."""
    return f"`{column.replace('`', '``')}`"


def _functions() -> Any:
    return import_module("pyspark.sql.functions")
