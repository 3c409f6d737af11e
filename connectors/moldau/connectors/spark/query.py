"""From a config to a streaming DataFrame: read, parse, transform, write.

The view `source` has the columns of the value, and `_topic`, `_partition`, `_offset`, `_timestamp`
and `_key`. Without `transforms.sql` the columns that begin with `_` are not written.

Invariants: a value that cannot be read ends the query, or is skipped, or is written to the dead
letter topic, as the config says, and never becomes a row of nulls; a tombstone is no row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.checkpoints import Generation
from moldau.connectors.spark.config import SparkSinkConfig, topics_of
from moldau.errors import ConfigError

_META: Final = ("topic", "partition", "offset", "timestamp", "key")
_CORRUPT: Final = "_corrupt_record"
_END: Final = "_moldau_end"
_STAGE: Final = "VALUE_CONVERTER"
_KEY_STAGE: Final = "KEY_CONVERTER"


class Rows:
    """The query of one connector, up to its sink."""

    def __init__(self, session: Any, config: SparkSinkConfig, name: str) -> None:
        self._session = session
        self._config = config
        self._name = name
        self._functions = import_module("pyspark.sql.functions")

    def records(
        self,
        clients: Mapping[str, str],
        generation: Generation,
        group: str | None = None,
        mode: str | None = None,
    ) -> Any:
        """The stream of records. Keys, Avro values and those of a registry are typed; `mode` says
        what becomes of those that cannot be read, by default what the config says."""
        config = self._config
        starting = json.dumps(generation.starting) if generation.starting else None
        options = {
            **{f"kafka.{name}": text for name, text in clients.items()},
            **{f"kafka.{name}": text for name, text in config.with_prefix("kafka.").items()},
            **topics_of(config.originals),
            "startingOffsets": starting or config.starting_offsets,
            "failOnDataLoss": str(config.fail_on_data_loss).lower(),
            "includeHeaders": str(bool(config.dead_letter_topic)).lower(),
            "includeRaw": str(mode is not None).lower(),
            "value.mode": mode or ("skip" if config.tolerates_errors else "failfast"),
            "key.format": config.key_format,
        }
        if group is not None:
            options["kafka.group.id"] = group
        if config.batch_limit is not None:
            options["maxOffsetsPerTrigger"] = str(config.batch_limit)
        if config.min_partitions is not None:
            options["minPartitions"] = str(config.min_partitions)
        if config.key_schema is not None:
            options["key.schema"] = config.key_schema
        if config.is_typed:
            options["value.format"] = config.value_format
            if config.value_registry:
                options["value.registry"] = config.value_registry
            else:
                options["value.schema"] = config.value_schema or ""
        return self._session.readStream.format("moldau").options(**options).load()

    def sample(self, clients: Mapping[str, str], count: int) -> list[bytes | None]:
        """The values of some of the first records."""
        options = {f"kafka.{name}": text for name, text in clients.items()}
        options |= {f"kafka.{name}": text
                    for name, text in self._config.with_prefix("kafka.").items()}  # fmt: skip
        options |= topics_of(self._config.originals)
        rows = self._session.read.format("moldau").options(**options).load()
        found = rows.select("value").limit(count).collect()
        return [None if row.value is None else bytes(row.value) for row in found]

    def good(self, records: Any) -> Any:
        """The view `source`: values as columns, and where they come from."""
        f = self._functions
        meta = [f.col(name).alias(f"_{name}") for name in _META]
        kept = records.where("value IS NOT NULL")
        if self._config.value_format in ("string", "binary"):
            value = f.col("value")
            if self._config.value_format == "string":
                value = value.cast("string")
            return kept.select(value.alias("value"), *meta)
        if self._config.is_typed:
            return kept.select("value.*", *meta)
        parsed = self._parsed(kept)
        if self._config.tolerates_errors:
            rows = parsed.where(~self._is_bad())
        else:
            failed = f.raise_error(self._complaint())
            checked = f.when(self._is_bad(), failed).otherwise(f.col("_row"))
            # The condition keeps the check where a query uses no column of the value.
            rows = parsed.withColumn("_row", checked).where("_row IS NOT NULL")
        return rows.select("_row.*", *meta).drop(_CORRUPT, _END)

    def letters(self, clients: Mapping[str, str], generation: Generation) -> Any:
        """Records for the dead letter topic, with Kafka Connect's headers."""
        f = self._functions
        config, found = self._config, []
        if config.is_typed or config.is_key_typed:
            rows = self.records(clients, generation, mode="rejects")
            is_key = f.col("key").isNull() & f.col("rawKey").isNotNull()
            stage = f.when(is_key, _KEY_STAGE).otherwise(_STAGE)
            found.append(self._letter(rows, stage, self._complaint("rawValue", is_both=True)))
        if config.is_parsed:
            rows = self.records(clients, generation, mode="skip").where("value IS NOT NULL")
            rows = self._parsed(rows).where(self._is_bad())
            found.append(self._letter(rows, f.lit(_STAGE), self._complaint("rawValue")))
        return found[0] if len(found) == 1 else found[0].unionByName(found[1])

    def _letter(self, rows: Any, stage: Any, complaint: Any) -> Any:
        f = self._functions
        told = {
            "topic": f.col("topic"),
            "partition": f.col("partition"),
            "offset": f.col("offset"),
            "connector.name": f.lit(self._name),
            "task.id": f.lit("0"),
            "stage": stage,
            "class.name": f.lit(f"{__name__}.{type(self).__qualname__}"),
            "exception.class.name": f.lit("moldau.connect.errors.DataError"),
            "exception.message": complaint,
        }
        headers = [
            f.struct(
                f.lit(f"__connect.errors.{name}").alias("key"),
                column.cast("string").cast("binary").alias("value"),
            )
            for name, column in told.items()
        ]
        nothing = f.array().cast("array<struct<key:string,value:binary>>")
        own = f.coalesce(f.col("headers"), nothing)
        has_time = f.unix_millis("timestamp") >= 0
        return rows.select(
            f.col("rawKey").alias("key"),
            f.col("rawValue").alias("value"),
            f.concat(own, f.array(*headers)).alias("headers"),
            f.when(has_time, f.col("timestamp")).alias("timestamp"),
        )

    def _parsed(self, records: Any) -> Any:
        """With a column `_row`. Spark would move conditions on it before the parsing, and parse
        each value again for each of them; it leaves alone what depends on the partition."""
        f = self._functions
        return records.withColumn("_row", f.when(f.spark_partition_id() >= 0, self._read()))

    def _read(self) -> Any:
        """The value as a struct, with what cannot be read of it in `_corrupt_record`.

        Spark stops reading where a JSON value ends, and would let `{"id":1} {"id":2}` pass. So the
        last brace is put off by one more field, `_END`: only if nothing stands between the value
        and the end is it a field of the value."""
        f = self._functions
        options = self._config.with_prefix("value.option.")
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        columns = f"{self._config.value_schema}, {_CORRUPT} STRING"
        if self._config.value_format == "csv":
            text = f.col("value").cast("string")
            return f.when(f.trim(text) != "", f.from_csv(text, columns, options))
        brace = f.lit(b"}")
        blanks = f.rtrim(f.col("value").cast("string"), f.lit(" \t\r\n")).cast("binary")
        value = f.when(f.endswith("value", brace), f.col("value")).otherwise(blanks)
        inside = f.substring(value, f.lit(1), f.length(value) - 1)
        text = f.concat(inside, f.lit(f',"{_END}":1}}'.encode())).cast("string")
        row = f.from_json(text, f"{columns}, {_END} INT", options)
        return f.when(f.endswith(value, brace), row)

    def _is_bad(self) -> Any:
        f = self._functions
        is_corrupt = f.col(f"_row.{_CORRUPT}").isNotNull()
        if self._config.value_format != "csv":
            # An object without fields has no comma before `_END`. Its row is one of nulls.
            is_empty = f.rlike(f.col("value").cast("string"), f.lit(r"^\s*\{\s*\}\s*$"))
            is_corrupt = (is_corrupt | f.col(f"_row.{_END}").isNull()) & ~is_empty
        return f.col("_row").isNull() | is_corrupt

    def _complaint(self, value: str = "value", *, is_both: bool = False) -> Any:
        """`is_both`: the key or the value, it is not known which."""
        f = self._functions
        what = "a key or value" if is_both else "a value"
        schema = "key.schema or value.schema" if is_both else "value.schema"
        return f.concat(
            f.lit(f"{what} does not fit {schema} (errors.tolerance=all skips it): topic "),
            f.col("topic"),
            f.lit(", partition "),
            f.col("partition").cast("string"),
            f.lit(", offset "),
            f.col("offset").cast("string"),
            f.lit(": "),
            f.substring(f.make_valid_utf8(f.col(value).cast("string")), 1, 80),
        )

    def transformed(self, source: Any) -> Any:
        """What goes to the sink."""
        config, f = self._config, self._functions
        if config.watermark is not None:
            column, _, delay = config.watermark.partition(",")
            source = source.withWatermark(column.strip(), delay.strip())
        if config.dedup_columns:
            if config.watermark is not None:
                source = source.dropDuplicatesWithinWatermark(config.dedup_columns)
            else:
                source = source.dropDuplicates(config.dedup_columns)
        rows = source
        if config.transforms_sql is not None:
            source.createOrReplaceTempView("source")
            rows = self._session.sql(config.transforms_sql)
        if config.transforms_python is not None:
            rows = function_of(config.transforms_python)(rows)
        for name, origin in config.partition_columns():
            if origin is not None:
                if name in rows.columns:
                    raise ConfigError(
                        f"partition.by: date({origin}) makes a column {name}, and the rows have "
                        "one: name it otherwise in transforms.sql, or partition by it",
                        columns=", ".join(rows.columns),
                    )
                rows = rows.withColumn(name, f.to_date(f.col(origin)))
        if config.transforms_sql is None and config.transforms_python is None:
            rows = rows.drop(*(f"_{name}" for name in _META))
        return rows if config.coalesce is None else rows.coalesce(config.coalesce)


def function_of(name: str) -> Any:
    """What `module:function` names; ConfigError if it cannot be imported."""
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"transforms.python cannot be used: {error}; write module:function", value=name
        ) from error
