"""Check the SQL of Spark connectors in a pipeline file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from moldau.config.file_problems import Problem, warning
from moldau.config.yaml_tree import Node
from moldau.pipeline.edges import connector_line, connector_place, value_ddl
from moldau.pipeline.pipeline import Connector, Pipeline
from moldau.pipeline.references import has_reference

Query = dict[str, str]
CheckSql = Callable[[Sequence[Query]], list[str | None] | str]
"""Returns what is wrong with each of these queries, or a text that says why that is not known."""

TIMEOUT_S: Final = 120.0
_SQL: Final = "transforms.sql"
_METADATA: Final = (
    "`_topic` STRING, `_partition` INT, `_offset` BIGINT, `_timestamp` TIMESTAMP, `_key` "
)
"""The columns that the view `source` of a sink has beside those of the value."""
_KEY_TYPES: Final[Mapping[str, str]] = {"binary": "BINARY", "string": "STRING"}


def check_sql_with_spark(queries: Sequence[Query]) -> list[str | None] | str:
    """Ask Spark about these queries, in a process of its own."""
    from moldau.runtime.node_processes import outputs_of

    command = ["spark", "check-sql", json.dumps(queries)]
    ((code, out, err),) = outputs_of([command], ".", TIMEOUT_S)
    if code != 0:
        lines = [each for each in err.splitlines() if each.startswith("moldau: ")]
        return lines[-1].removeprefix("moldau: ") if lines else "Spark did not answer"
    found: list[str | None] = json.loads(out[out.find("[") :])
    return found


def check_queries(pipeline: Pipeline, root: Node, check: CheckSql | None) -> list[Problem]:
    """Return the problems of `transforms.sql` in sources and sinks."""
    asked = [(each, query) for each in pipeline.connectors if (query := _query(each)) is not None]
    if not asked or check is None:
        return []
    answers = check([query for _, query in asked])
    if isinstance(answers, str):
        line = connector_line(root, asked[0][0], _SQL)
        return [warning(line, f"{_SQL} is not checked: {answers}")]
    return [
        Problem(
            connector_line(root, connector, _SQL), f"{connector_place(connector)}: {_SQL}: {text}"
        )
        for (connector, _), text in zip(asked, answers, strict=True)
        if text is not None
    ]


def _query(connector: Connector) -> Query | None:
    """Return the query of a Spark connector, with the columns of its view if they are known."""
    config = connector.config
    sql = config.get(_SQL, "")
    is_spark = connector.short_class.removesuffix("Connector") in ("SparkSink", "SparkSource")
    if not is_spark or not sql or has_reference(sql):
        return None
    if connector.is_source:
        columns = config.get("source.schema", "")
        return {"sql": sql, "columns": columns} if columns else {"sql": sql}
    key = _KEY_TYPES.get(config.get("key.format", "binary"))
    columns = {"string": "value STRING", "binary": "value BINARY"}.get(
        config.get("value.format", "json"), value_ddl(config)
    )
    # A key of a schema is a struct of it: what the query does with it is left to Spark.
    if not columns or key is None or config.get("transforms.python"):
        return {"sql": sql}
    return {"sql": sql, "columns": f"{columns}, {_METADATA}{key}"}
