"""Register the data source `moldau` with PySpark.

Spark imports every top-level module whose name begins with `pyspark_`, and registers its class
`DefaultSource` (`pyspark.sql.worker.lookup_data_sources`), so `format("moldau")` works without a
call to `spark.dataSource.register`.
"""

from __future__ import annotations

from moldau.spark.source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
