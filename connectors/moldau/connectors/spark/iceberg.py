"""Batches into an Iceberg table, each once, by pyiceberg.

`sink.option.*` are the properties of the catalog (`type`, `uri`, `warehouse`, ...). The number of
the last batch of a query is a property of the table, set in the same commit as the rows, so it
outlives the expiry of snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.batches import is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.errors import ConfigError

_CATALOG: Final = "moldau"
_LAST: Final = "moldau.batch."


def iceberg_batch(
    config: SparkSinkConfig, query: str, *, is_fresh: bool = False
) -> Callable[[Any, int], None]:
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
    last = f"{_LAST}{query}"

    def table_for(schema: Any) -> Any:
        try:
            return catalog.load_table(name)
        except missing:
            if not config.auto_create:
                raise ConfigError(
                    "there is no such table, and auto.create=false", table=name
                ) from None
            catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
            table = catalog.create_table(name, schema=schema)
            with table.update_spec() as spec:
                for column, _ in config.partition_columns():
                    spec.add_identity(column)
            return table

    def write(batch: Any, number: int) -> None:
        data = batch.toArrow()
        table = table_for(data.schema)
        written = table.properties.get(last)
        if is_repeated(None if written is None else int(written), number, is_fresh=is_fresh):
            return
        with table.transaction() as transaction:
            transaction.append(data)
            transaction.set_properties({last: str(number)})

    return write
