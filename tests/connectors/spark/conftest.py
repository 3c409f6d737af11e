"""The Spark session of the whole run."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
