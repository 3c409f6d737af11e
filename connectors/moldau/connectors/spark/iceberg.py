"""Batches into an Iceberg table, each once, by pyiceberg.

`sink.option.*` are the properties of the catalog (`type`, `uri`, `warehouse`, ...). The number of
the last batch of a query is a property of the table, set in the same commit as the rows, so it
outlives the expiry of snapshots.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.batches import Place, WriteBatch, check_columns, is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.pieces import pieces_of
from moldau.errors import ConfigError

_CATALOG: Final = "moldau"
_LAST: Final = "moldau.batch."


def iceberg_batch(config: SparkSinkConfig, place: Place) -> WriteBatch:
    """What appends one batch."""
    try:
        catalogs = import_module("pyiceberg.catalog")
        missing = import_module("pyiceberg.exceptions").NoSuchTableError
    except ImportError as error:
        raise ConfigError(
            "sink.format=iceberg needs pyiceberg: pip install 'moldau-connectors[iceberg]'",
            missing=error.name,
        ) from error
    name = config.sink_table
    assert name is not None
    catalog = catalogs.load_catalog(_CATALOG, **config.with_prefix("sink.option."))
    last = f"{_LAST}{place.query}"

    def loaded() -> Any:
        try:
            return catalog.load_table(name)
        except missing:
            return None

    def made(schema: Any) -> Any:
        if not config.auto_create:
            raise ConfigError("there is no such table, and auto.create=false", table=name)
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table = catalog.create_table(name, schema=schema)
        with table.update_spec() as spec:
            for column, _ in config.partition_columns():
                spec.add_identity(column)
        return table

    def write(batch: Any, number: int) -> None:
        table = loaded()
        written = None if table is None else table.properties.get(last)
        before = None if written is None else int(written)
        if is_repeated(before, number, is_fresh=place.is_fresh):
            return
        with pieces_of(batch, place.spool, is_optional=config.auto_evolve) as pieces:
            table = made(pieces.schema) if table is None else table
            if not config.auto_evolve:
                known = [each.name for each in table.schema().fields]
                check_columns(name, known, pieces.schema.names)
            with table.transaction() as transaction:
                if config.auto_evolve:
                    with transaction.update_schema() as update:
                        update.union_by_name(pieces.schema)
                replaces = config.sink_mode == "overwrite" and table.current_snapshot() is not None
                for rows in pieces.tables():
                    write_rows = transaction.overwrite if replaces else transaction.append
                    write_rows(rows)
                    replaces = False
                transaction.set_properties({last: str(number)})

    return write
