"""Batches into a Delta table, each once, by delta-rs: no jar.

The name of the query and the number of its last batch are in the same commit as the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from moldau.connectors.spark.batches import Place, WriteBatch, check_columns, is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.pieces import Pieces, pieces_of
from moldau.errors import ConfigError


def delta_batch(config: SparkSinkConfig, place: Place) -> WriteBatch:
    """What appends or merges one batch."""
    try:
        delta = import_module("deltalake")
    except ImportError as error:
        raise ConfigError(
            "sink.format=delta needs deltalake: pip install 'moldau-connectors[delta]'",
            missing="deltalake",
        ) from error
    path = config.sink_path
    options = config.with_prefix("sink.option.") or None
    columns = [name for name, _ in config.partition_columns()] or None

    def write(batch: Any, number: int) -> None:
        exists = delta.DeltaTable.is_deltatable(path, storage_options=options)
        table = delta.DeltaTable(path, storage_options=options) if exists else None
        if table is not None:
            last = table.transaction_version(place.query)
            if is_repeated(last, number, is_fresh=place.is_fresh):
                return
        commit = delta.CommitProperties(app_transactions=[delta.Transaction(place.query, number)])
        with pieces_of(batch, place.spool, is_optional=config.auto_evolve) as pieces:
            if table is not None and not config.auto_evolve:
                known = [each.name for each in table.schema().fields]
                check_columns(path, known, pieces.schema.names)
            rows = _rows(config, pieces)
            if table is not None and config.sink_mode == "upsert":
                _merge(table, rows, config, commit)
                return
            delta.write_deltalake(
                path if table is None else table,
                rows,
                mode="overwrite" if config.sink_mode == "overwrite" else "append",
                schema_mode="merge" if table is not None and config.auto_evolve else None,
                partition_by=columns,
                storage_options=options,
                commit_properties=commit,
            )

    return write


def _rows(config: SparkSinkConfig, pieces: Pieces) -> Any:
    """A merge needs all rows at once."""
    if config.sink_mode == "upsert":
        return last_of_keys(pieces.table(), config.sink_keys)
    return pieces.reader()


def _merge(table: Any, rows: Any, config: SparkSinkConfig, commit: Any) -> None:
    same = " AND ".join(f"target.`{each}` = source.`{each}`" for each in config.sink_keys)
    merge = table.merge(
        rows,
        predicate=same,
        source_alias="source",
        target_alias="target",
        merge_schema=config.auto_evolve,
        commit_properties=commit,
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def last_of_keys(data: Any, keys: Sequence[str]) -> Any:
    """The last row of each key, in the order of the rows. A merge refuses two rows of one key."""
    missing = [each for each in keys if each not in data.column_names]
    if missing:
        raise ConfigError(
            "sink.keys names columns that the rows do not have", columns=", ".join(missing)
        )
    arrow = import_module("pyarrow")
    place = "place"
    while place in data.column_names:
        place += "_"
    numbered = data.append_column(place, arrow.array(range(len(data)), arrow.int64()))
    last = numbered.group_by(list(keys)).aggregate([(place, "max")])[f"{place}_max"]
    return data.take(last.combine_chunks().sort())
