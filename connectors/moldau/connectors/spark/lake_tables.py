"""Write batches into a Delta or Iceberg table, each once: by delta-rs or pyiceberg, without a jar.

The name of the query and the number of its last batch are in the same commit as the rows. In an
Iceberg table the number is a property of the table, so it remains when snapshots expire.
`sink.catalog` is the name of the catalog, and `sink.option.*` are its properties (`type`, `uri`,
`warehouse`, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.batches import QueryCheckpoint, WriteBatch, check_columns, is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.spool import SpooledRows, emptied_spool, spooled_rows
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.spark.reach import Unavailable

_LAST_BATCH: Final = "moldau.batch."


def delta_writer(config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> WriteBatch:
    """Return the function that appends or merges a batch."""
    try:
        delta = import_module("deltalake")
    except ImportError as error:
        raise ConfigError(
            f"sink.format=delta needs deltalake: {install_command('delta')}", missing="deltalake"
        ) from error
    path = config.sink_path
    options = config.with_prefix("sink.option.") or None
    partition_columns = [name for name, _ in config.partition_columns()] or None
    query = checkpoint.query_name

    def write(batch: Any, number: int) -> None:
        exists = delta.DeltaTable.is_deltatable(path, storage_options=options)
        table = delta.DeltaTable(path, storage_options=options) if exists else None
        if table is not None:
            last = table.transaction_version(query)
            if is_repeated(last, number, is_fresh=checkpoint.is_fresh):
                emptied_spool(checkpoint.spool)  # of an attempt that was killed
                return
        commit = delta.CommitProperties(app_transactions=[delta.Transaction(query, number)])
        with spooled_rows(batch, checkpoint.spool, all_nullable=config.auto_evolve) as spooled:
            if table is not None and not config.auto_evolve:
                known = [each.name for each in table.schema().fields]
                check_columns(path, known, spooled.schema.names)
            rows = _arrow_rows(config, spooled)
            if table is not None and config.sink_mode == "upsert":
                _merge(table, rows, config, commit)
                return
            delta.write_deltalake(
                path if table is None else table,
                rows,
                mode="overwrite" if config.sink_mode == "overwrite" else "append",
                schema_mode="merge" if table is not None and config.auto_evolve else None,
                partition_by=partition_columns,
                storage_options=options,
                commit_properties=commit,
            )

    return write


def _arrow_rows(config: SparkSinkConfig, spooled: SpooledRows) -> Any:
    """Return a stream of the rows, or for an upsert a table: a merge needs all rows at once."""
    if config.sink_mode == "upsert":
        return last_row_per_key(spooled.table(), config.sink_keys)
    return spooled.reader()


def _merge(table: Any, rows: Any, config: SparkSinkConfig, commit: Any) -> None:
    same_key = " AND ".join(f"target.`{each}` = source.`{each}`" for each in config.sink_keys)
    merge = table.merge(
        rows,
        predicate=same_key,
        source_alias="source",
        target_alias="target",
        merge_schema=config.auto_evolve,
        commit_properties=commit,
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def last_row_per_key(data: Any, keys: Sequence[str]) -> Any:
    """Return the last row of each key, in the order of the rows.

    A merge fails if two rows have one key. ConfigError if the rows lack a column of the key.
    """
    missing = [each for each in keys if each not in data.column_names]
    if missing:
        raise ConfigError(
            "sink.keys names columns that the rows do not have: select them in transforms.sql, or "
            "correct sink.keys",
            columns=", ".join(missing),
        )
    arrow = import_module("pyarrow")
    position = "position"
    while position in data.column_names:
        position += "_"
    numbered = data.append_column(position, arrow.array(range(len(data)), arrow.int64()))
    last = numbered.group_by(list(keys)).aggregate([(position, "max")])[f"{position}_max"]
    return data.take(last.combine_chunks().sort())


def iceberg_writer(config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> WriteBatch:
    """Return the function that appends a batch."""
    try:
        catalogs = import_module("pyiceberg.catalog")
        missing = import_module("pyiceberg.exceptions").NoSuchTableError
    except ImportError as error:
        raise ConfigError(
            f"sink.format=iceberg needs pyiceberg: {install_command('iceberg')}", missing=error.name
        ) from error
    name = config.sink_table
    assert name is not None
    catalog = catalogs.load_catalog(config.sink_catalog, **config.with_prefix("sink.option."))
    last_batch = f"{_LAST_BATCH}{checkpoint.query_name}"

    def load_table() -> Any:
        try:
            return catalog.load_table(name)
        except missing:
            return None

    def create_table(schema: Any) -> Any:
        if not config.auto_create:
            raise Unavailable(
                "there is no such table, and auto.create=false: create the table, or set "
                "auto.create=true",
                table=name,
            )
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table = catalog.create_table(name, schema=schema)
        with table.update_spec() as spec:
            for column, _ in config.partition_columns():
                spec.add_identity(column)
        return table

    def write(batch: Any, number: int) -> None:
        table = load_table()
        written = None if table is None else table.properties.get(last_batch)
        last = None if written is None else int(written)
        if is_repeated(last, number, is_fresh=checkpoint.is_fresh):
            emptied_spool(checkpoint.spool)  # of an attempt that was killed
            return
        with spooled_rows(batch, checkpoint.spool, all_nullable=config.auto_evolve) as spooled:
            table = create_table(spooled.schema) if table is None else table
            if not config.auto_evolve:
                known = [each.name for each in table.schema().fields]
                check_columns(name, known, spooled.schema.names)
            with table.transaction() as transaction:
                if config.auto_evolve:
                    with transaction.update_schema() as update:
                        update.union_by_name(spooled.schema)
                replaces = config.sink_mode == "overwrite" and table.current_snapshot() is not None
                for rows in spooled.tables():
                    write_rows = transaction.overwrite if replaces else transaction.append
                    write_rows(rows)
                    replaces = False
                transaction.set_properties({last_batch: str(number)})

    return write
