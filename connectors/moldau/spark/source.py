"""The data source itself: what Spark finds under `format("moldau")`."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from moldau.spark.options import parse_read
from moldau.spark.reading import BatchReader, FilteringReader, StreamReader
from moldau.spark.rows import row_schema
from moldau.spark.values import value_type
from moldau.spark.writing import BatchWriter, StreamWriter, parse_write


class TopicSource(DataSource):  # type: ignore[misc]
    """Topics as rows, and rows as records."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> str:
        """Spark asks when `load()` is called, so that wrong options are told there. It does not say
        whether it is for a stream: what only a batch or only a stream may have is looked at by the
        readers."""
        options = parse_read(self.options, is_stream=True, is_known=False)
        return row_schema(value_type(options), has_headers=options.include_headers)

    def reader(self, schema: Any) -> BatchReader:
        options = parse_read(self.options, is_stream=False)
        kind = FilteringReader if options.pushes_filters else BatchReader
        return kind(options, schema)

    def streamReader(self, schema: Any) -> StreamReader:
        return StreamReader(parse_read(self.options, is_stream=True), schema)

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        return BatchWriter(parse_write(self.options, schema, overwrite=overwrite, is_stream=False))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        return StreamWriter(parse_write(self.options, schema, overwrite=overwrite, is_stream=True))
