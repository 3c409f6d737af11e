"""Read and write Kafka topics in PySpark: the data source `moldau`, and Spark sessions for it.

    spark.readStream.format("moldau").option("kafka.bootstrap.servers", "localhost:9092")
         .option("subscribe", "orders").load()

Installing the distribution registers the format (see `pyspark_moldau`). No jar is needed. Options,
row schema and meaning are those of Spark's own `kafka` source, so a job changes one word.

Importing this package imports neither pyspark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.spark.cluster import cluster_options, cluster_settings
    from moldau.spark.java import Java, find_java
    from moldau.spark.session import new_session, prepare_environment

_MODULES = {
    "Java": "moldau.spark.java", "cluster_options": "moldau.spark.cluster",
    "cluster_settings": "moldau.spark.cluster", "find_java": "moldau.spark.java",
    "new_session": "moldau.spark.session", "prepare_environment": "moldau.spark.session",
}  # fmt: skip

__all__ = [
    "Java", "cluster_options", "cluster_settings", "find_java", "new_session",
    "prepare_environment",
]  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
