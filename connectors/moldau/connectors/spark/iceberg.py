"""Write batches into an Iceberg table, each once, by pyiceberg.

`sink.catalog` is the name of the catalog, and `sink.option.*` are its properties (`type`, `uri`,
`warehouse`, ...). The number of the last batch of a query is a property of the table, set in the
same commit as the rows. So it remains when snapshots expire.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.batches import (
    QueryCheckpoint,
    WriteBatch,
    check_columns,
    is_repeated,
)
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.spool import emptied_spool, spooled_rows
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.spark.reach import Unavailable

_LAST_BATCH: Final = "moldau.batch."


def iceberg_writer(config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> WriteBatch:
    """Return the function that appends a batch."""
    try:
        catalogs = import_module("pyiceberg.catalog")
        missing = import_module("pyiceberg.exceptions").NoSuchTableError
    except ImportError as error:
        raise ConfigError(
            f"sink.format=iceberg needs pyiceberg: {install_command('iceberg')}",
            missing=error.name,
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
