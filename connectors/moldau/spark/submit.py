"""Which `spark-submit` is called."""

from __future__ import annotations

from importlib.util import find_spec

from moldau.errors import ConfigError
from moldau.runtime.children import process_environment
from moldau.runtime.files import parent_path
from moldau.runtime.real_files import RealFiles


def find_submit(home: str | None) -> str:
    """That of this installation, of SPARK_HOME, or of PySpark, in this order."""
    where, name = home, "spark.home"
    if where is None:
        where, name = process_environment().get("SPARK_HOME"), "SPARK_HOME"
    if not where:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise ConfigError(
                "no Spark to submit with: set spark.home, or pip install 'moldau-connectors[spark]'"
            )
        where, name = parent_path(spec.origin), "pyspark"
    found = f"{where.rstrip('/')}/bin/spark-submit"
    if not RealFiles().exists(found):
        raise ConfigError(
            "there is no bin/spark-submit: name the directory of a Spark installation",
            **{name: where},
        )
    return found


def home_of(submit: str) -> str:
    """SPARK_HOME for a `spark-submit`."""
    return parent_path(parent_path(submit))
