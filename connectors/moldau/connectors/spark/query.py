"""Make the streaming DataFrame of a sink from its config: read, parse and transform records.

The view `source` has the columns of the value, and `_topic`, `_partition`, `_offset`, `_timestamp`
and `_key`. Without transforms these five columns are not written.

Invariants: a value that does not fit its schema ends the query, or is skipped, or is written to the
dead letter topic, as the config says, and never becomes a row of nulls; a tombstone is no row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from moldau.client.settings.rows import OF_PRODUCERS_ALONE
from moldau.connectors.spark.checkpoint.generations import Generation
from moldau.connectors.spark.config import SparkSinkConfig, subscription
from moldau.connectors.spark.failures import raise_readable
from moldau.connectors.spark.messages import SKIPPED, Message, SendMessage, progress_message
from moldau.errors import ConfigError
from moldau.spark.options import CONTRACT_RULES

_METADATA: Final = ("topic", "partition", "offset", "timestamp", "key")
_CORRUPT: Final = "_corrupt_record"
_END_FIELD: Final = "_moldau_end"
_VALUE_STAGE: Final = "VALUE_CONVERTER"
_KEY_STAGE: Final = "KEY_CONVERTER"


class Rows:
    """The rows of a sink's query, from the topics up to the sink.

    Dead letters carry the full name of this class in `__connect.errors.class.name`.
    """

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
        """Return the stream of records, with keys and values decoded as far as the data source
        does that: keys, Avro values, and values of a registry.

        `mode` is the data source's `value.mode`, which decides about keys and values that do not
        fit. The default follows from the config.
        """
        config = self._config
        starting = json.dumps(generation.starting) if generation.starting else None
        options = {
            **self._consumer_options(clients),
            **subscription(config.originals),
            "startingOffsets": starting or config.starting_offsets,
            "failOnDataLoss": str(config.fail_on_data_loss).lower(),
            "includeHeaders": str(bool(config.dead_letter_topic)).lower(),
            "includeRaw": str(mode is not None).lower(),
            "value.mode": mode or ("skip" if config.tolerates_errors else "failfast"),
            "key.format": config.key_format,
        }
        if group is not None:
            options["kafka.group.id"] = group
        if config.max_batch_records is not None:
            options["maxOffsetsPerTrigger"] = str(config.max_batch_records)
        if config.min_partitions is not None:
            options["minPartitions"] = str(config.min_partitions)
        if config.key_schema is not None:
            options["key.schema"] = config.key_schema
        if config.is_decoded_by_source:
            options["value.format"] = config.value_format
            if config.value_registry:
                options["value.registry"] = config.value_registry
                options[CONTRACT_RULES] = config.contract_rules
            else:
                options["value.schema"] = config.value_schema or ""
        return self._session.readStream.format("moldau").options(**options).load()

    def _consumer_options(self, clients: Mapping[str, str]) -> dict[str, str]:
        """Return the client settings as options of the data source, without those of a producer.

        As in every sink of Connect, aborted records are not read unless a setting says so."""
        given = {**clients, **self._config.with_prefix("kafka.")}
        settings = {"isolation.level": "read_committed", **given}
        return {
            f"kafka.{name}": text
            for name, text in settings.items()
            if name not in OF_PRODUCERS_ALONE
        }

    def sample(self, clients: Mapping[str, str], count: int) -> list[bytes | None]:
        """Return the values of up to `count` of the first records."""
        options = {
            **self._consumer_options(clients), **subscription(self._config.originals)
        }  # fmt: skip
        rows = self._session.read.format("moldau").options(**options).load()
        found = rows.select("value").limit(count).collect()
        return [None if row.value is None else bytes(row.value) for row in found]

    def valid_rows(self, records: Any) -> Any:
        """Return the rows of the view `source`: the columns of the values, and their metadata.

        A value that does not fit is skipped, or fails the query, as the config says.
        """
        f = self._functions
        metadata = [f.col(name).alias(f"_{name}") for name in _METADATA]
        not_null = records.where("value IS NOT NULL")
        if self._config.value_format in ("string", "binary"):
            value = f.col("value")
            if self._config.value_format == "string":
                value = value.cast("string")
            return not_null.select(value.alias("value"), *metadata)
        if self._config.is_decoded_by_source:
            return not_null.select("value.*", *metadata)
        parsed = self._parse(not_null)
        if self._config.tolerates_errors:
            if self._config.logs_errors and self._config.is_parsed_by_spark:
                parsed = self._observe_skipped(parsed)
            rows = parsed.where(~self._is_invalid())
        else:
            failed = f.raise_error(self._error_message())
            checked = f.when(self._is_invalid(), failed).otherwise(f.col("_row"))
            # The condition makes Spark check values even if the query uses no column of them.
            rows = parsed.withColumn("_row", checked).where("_row IS NOT NULL")
        return rows.select("_row.*", *metadata).drop(_CORRUPT, _END_FIELD)

    def _observe_skipped(self, parsed: Any) -> Any:
        """Return the same records. The progress of each batch then has a metric SKIPPED, with the
        number of records that do not fit and the place of the first one."""
        f = self._functions
        is_invalid = self._is_invalid()
        place = f.concat_ws("-", "topic", "partition", "offset")
        first = f.min_by(place, f.when(is_invalid, f.struct("topic", "partition", "offset")))
        return parsed.observe(SKIPPED, f.count_if(is_invalid).alias("count"), first.alias("first"))

    def dead_letters(self, clients: Mapping[str, str], generation: Generation) -> Any:
        """Return the records for the dead letter topic, with Kafka Connect's headers."""
        f = self._functions
        config, found = self._config, []
        if config.is_decoded_by_source or config.can_reject_keys:
            rows = self.records(clients, generation, mode="rejects")
            is_key = f.col("key").isNull() & f.col("rawKey").isNotNull()
            stage = f.when(is_key, _KEY_STAGE).otherwise(_VALUE_STAGE)
            message = self._error_message("rawValue", is_key_or_value=True)
            found.append(self._dead_letter(rows, stage, message))
        if config.is_parsed_by_spark:
            rows = self.records(clients, generation, mode="skip").where("value IS NOT NULL")
            rows = self._parse(rows).where(self._is_invalid())
            message = self._error_message("rawValue")
            found.append(self._dead_letter(rows, f.lit(_VALUE_STAGE), message))
        return found[0] if len(found) == 1 else found[0].unionByName(found[1])

    def _dead_letter(self, rows: Any, stage: Any, message: Any) -> Any:
        f = self._functions
        errors = {
            "topic": f.col("topic"),
            "partition": f.col("partition"),
            "offset": f.col("offset"),
            "connector.name": f.lit(self._name),
            "task.id": f.lit("0"),
            "stage": stage,
            "class.name": f.lit(f"{__name__}.{type(self).__qualname__}"),
            "exception.class.name": f.lit("moldau.connect.errors.DataError"),
            "exception.message": message,
        }
        headers = [
            f.struct(
                f.lit(f"__connect.errors.{name}").alias("key"),
                column.cast("string").cast("binary").alias("value"),
            )
            for name, column in errors.items()
        ]
        no_headers = f.array().cast("array<struct<key:string,value:binary>>")
        own = f.coalesce(f.col("headers"), no_headers)
        has_time = f.unix_millis("timestamp") >= 0
        return rows.select(
            f.col("rawKey").alias("key"),
            f.col("rawValue").alias("value"),
            f.concat(own, f.array(*headers)).alias("headers"),
            f.when(has_time, f.col("timestamp")).alias("timestamp"),
        )

    def _parse(self, records: Any) -> Any:
        """Return the records with a column `_row`, the parsed value.

        Spark would move a condition on `_row` before the parsing, and parse each value again for
        each condition. It does not move an expression that depends on the partition.
        """
        f = self._functions
        return records.withColumn("_row", f.when(f.spark_partition_id() >= 0, self._value_struct()))

    def _value_struct(self) -> Any:
        """Return the value as a struct. `_corrupt_record` in it has the text of a value that does
        not fit.

        Spark stops reading where a JSON value ends, so it would accept `{"id":1} {"id":2}`. So one
        more field, `_END_FIELD`, is inserted before the last brace. It is a field of the value only
        if no other text stands between the value and the end.
        """
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
        text = f.concat(inside, f.lit(f',"{_END_FIELD}":1}}'.encode())).cast("string")
        row = f.from_json(text, f"{columns}, {_END_FIELD} INT", options)
        return f.when(f.endswith(value, brace), row)

    def _is_invalid(self) -> Any:
        f = self._functions
        is_corrupt = f.col(f"_row.{_CORRUPT}").isNotNull()
        if self._config.value_format != "csv":
            # An empty object is valid: it is a row of nulls. With `_END_FIELD` inserted it is no
            # JSON any more, for no field stands before the comma.
            is_empty = f.rlike(f.col("value").cast("string"), f.lit(r"^\s*\{\s*\}\s*$"))
            is_corrupt = (is_corrupt | f.col(f"_row.{_END_FIELD}").isNull()) & ~is_empty
        return f.col("_row").isNull() | is_corrupt

    def _error_message(self, value: str = "value", *, is_key_or_value: bool = False) -> Any:
        """Return the message for a value that does not fit. `value` is the column with its bytes.

        `is_key_or_value`: either the key or the value does not fit, and it is not known which.
        """
        f = self._functions
        what = "a key or value" if is_key_or_value else "a value"
        schema = "key.schema or value.schema" if is_key_or_value else "value.schema"
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

    def transform(self, source: Any) -> Any:
        """Return the rows for the sink: after watermark, deduplication, transforms and partition
        columns."""
        config, f = self._config, self._functions
        _check_columns("dedup.columns", config.dedup_columns, source)
        if config.watermark is not None:
            column, _, delay = config.watermark.partition(",")
            _check_columns("watermark", [column], source)
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
            rows = load_function(config.transforms_python)(rows)
        for name, origin in config.partition_columns():
            if origin is not None:
                _check_columns("partition.by", [origin], rows)
                if name in rows.columns:
                    raise ConfigError(
                        f"partition.by: date({origin}) makes a column {name}, and the rows have "
                        "one: name it otherwise in transforms.sql, or partition by it",
                        columns=", ".join(rows.columns),
                    )
                rows = rows.withColumn(name, f.to_date(f.col(origin)))
        if config.transforms_sql is None and config.transforms_python is None:
            rows = rows.drop(*(f"_{name}" for name in _METADATA))
        _check_columns("partition.by", [name for name, _ in config.partition_columns()], rows)
        _check_columns("sink.keys", config.sink_keys, rows)
        return rows if config.coalesce is None else rows.coalesce(config.coalesce)


def _check_columns(setting: str, names: Iterable[str], rows: Any) -> None:
    """Raise ConfigError if a setting names columns that the rows lack.

    Names are not case-sensitive in Spark. A name with a dot may be a field of a struct: it is for
    Spark to check.
    """
    known = {each.lower() for each in rows.columns}
    plain = [each.strip().strip("`") for each in names]
    missing = [each for each in plain if "." not in each and each.lower() not in known]
    if missing:
        raise ConfigError(
            f"{setting} names columns that the rows lack: choose from their columns, or add one "
            "in transforms.sql",
            missing=", ".join(missing),
            columns=", ".join(rows.columns),
        )


def load_function(name: str) -> Any:
    """Import the function that `module:function` names. ConfigError if that fails."""
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"transforms.python cannot be used: {error}; write module:function", value=name
        ) from error


class StreamingQueries:
    """The queries that run now. Invariant: each progress is sent once, before its query's end."""

    def __init__(self, send: SendMessage) -> None:
        self._send = send
        self._queries: Sequence[Any] = ()
        self._sent_until: dict[str, str] = {}
        """By query: the timestamp of the last progress that was sent."""
        self._is_finished = False

    def watch(self, *queries: Any) -> None:
        """Poll these started queries from now on, in place of those before."""
        self._queries = queries
        self._is_finished = False

    def stop(self) -> None:
        """Stop the queries after the batch at hand. Their checkpoints stay."""
        for query in self._queries:
            query.stop()
        self._queries = ()

    def poll(self) -> None:
        """Send new progress. Raise the error that ended a query, or send `finished` once if all
        queries have ended without an error."""
        ended = [query for query in self._queries if not query.isActive]
        for query in self._queries:
            for progress in query.recentProgress:
                self._send_progress(progress)
        for query in ended:
            error = query.exception()
            if error is not None:
                raise_readable(error)
        if ended and len(ended) == len(self._queries) and not self._is_finished:
            self._is_finished = True
            self._send({"type": "finished"})

    def _send_progress(self, progress: Message) -> None:
        """Send a progress unless it was sent before: Spark keeps the last hundred."""
        name, timestamp = progress["name"], progress["timestamp"]
        if timestamp > self._sent_until.get(name, ""):
            self._sent_until[name] = timestamp
            self._send(progress_message(progress))
