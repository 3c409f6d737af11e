"""The Spark session of the whole run."""

from __future__ import annotations

from tests.spark.conftest import scratch, spark

__all__ = ["scratch", "spark"]
