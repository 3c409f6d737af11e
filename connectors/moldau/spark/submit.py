"""Find the `spark-submit` to call, and read its options."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.runtime.children import process_environment
from moldau.runtime.files import parent_path
from moldau.runtime.real_files import RealFiles

_FLAGS: Final = ("--help", "-h", "--verbose", "-v", "--version", "--supervise", "--usage-error")
"""The options of `spark-submit` without a value."""


def submit_options(words: Sequence[str]) -> dict[str, str]:
    """Return the options before the script, with their values. The last one of a name counts."""
    found = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, separator, text = rest.pop(0).partition("=")
        if name in _FLAGS:
            continue
        if not separator:
            text = rest.pop(0) if rest else ""
        found[name] = text
    return found


def find_submit(home: str | None) -> str:
    """Return the path of `spark-submit`: below `home`, below SPARK_HOME, or in PySpark.

    They are tried in this order. Raises ConfigError if the chosen one has no `bin/spark-submit`, or
    if there is no Spark at all."""
    where, name = home, "spark.home"
    if where is None:
        where, name = process_environment().get("SPARK_HOME"), "SPARK_HOME"
    if not where:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"spark-submit was not found: set spark.home, or {install_command('spark')}"
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
    """Return the Spark installation that this `spark-submit` belongs to, for SPARK_HOME."""
    return parent_path(parent_path(submit))
