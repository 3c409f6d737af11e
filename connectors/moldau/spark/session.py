"""Spark sessions that start without a jar, a script or a variable of the user's.

from moldau.spark import new_session

spark = new_session("orders", master="local[2]", conf={"spark.driver.memory": "1g"})
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.spark.java import find_java

_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_IN_THIS_PYTHON: Final = {"spark.python.daemon.module": "moldau.spark.daemon"}
_INSTALL: Final = "Spark is not installed: pip install 'moldau-connectors[spark]'"


def prepare_environment(*, needs_java: bool = True) -> None:
    """Sets JAVA_HOME, and PYSPARK_PYTHON to this interpreter, where the user has not: a worker of
    another Python would not find this package, and Spark would wait for it in vain."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if needs_java:
        os.environ["JAVA_HOME"] = find_java().home


def new_session(
    name: str,
    *,
    master: str = "local[*]",
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Any:
    """A SparkSession; with `remote` (`sc://host:15002`) of a Spark Connect server, which needs no
    Java here. ConfigError says what is missing."""
    prepare_environment(needs_java=remote is None)
    try:
        sql = import_module("pyspark.sql")
    except ImportError as error:
        raise ConfigError(_INSTALL, missing=error.name) from error
    builder = sql.SparkSession.builder.appName(name)
    builder = builder.master(master) if remote is None else builder.remote(remote)
    own = _IN_THIS_PYTHON if remote is None else {}
    for key, value in {**_DEFAULTS, **own, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # It repeats each failed query with all its JVM frames; the exception says it already.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if remote is None:
        session.sparkContext.setLogLevel((conf or {}).get("spark.log.level", "ERROR"))
    return session
