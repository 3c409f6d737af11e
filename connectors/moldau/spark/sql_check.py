"""Check the queries of connectors without data: `moldau spark check-sql`.

Each query is a JSON object with `sql`, and with `columns`, the columns of the view `source` as DDL;
without columns only the query's syntax is checked. One session of Spark checks all of them.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from moldau.spark.session import new_session


def check_queries(text: str) -> list[str | None]:
    """Return for each query of a JSON array what is wrong with it, in one line, or None."""
    queries = json.loads(text)
    session = new_session(
        "check-sql",
        master="local[1]",
        conf={"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
              "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"},
    )  # fmt: skip
    try:
        return [_problem(session, each["sql"], each.get("columns")) for each in queries]
    finally:
        session.stop()


def _problem(session: Any, sql: str, columns: str | None) -> str | None:
    refused = import_module("pyspark.errors").PySparkException
    try:
        if columns is None:
            session._jsparkSession.sessionState().sqlParser().parsePlan(sql)
        else:
            session.createDataFrame([], columns).createOrReplaceTempView("source")
            session.sql(sql)
    except refused as error:
        return " ".join(str(error).partition(" SQLSTATE:")[0].split())
    return None
