"""Check the columns and the SQL of Spark connectors in a pipeline file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from moldau.config.file_problems import Problem, nearest, warning
from moldau.config.yaml_tree import Node
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
_COLUMN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)\s*:?")


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
        line = _line(root, asked[0][0], _SQL)
        return [warning(line, f"{_SQL} is not checked: {answers}")]
    return [
        Problem(_line(root, connector, _SQL), f"{_where(connector)}: {_SQL}: {text}")
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
        config.get("value.format", "json"), _ddl(config)
    )
    # A key of a schema is a struct of it: what the query does with it is left to Spark.
    if not columns or key is None or config.get("transforms.python"):
        return {"sql": sql}
    return {"sql": sql, "columns": f"{columns}, {_METADATA}{key}"}


def _ddl(config: Mapping[str, str]) -> str:
    """Return the columns of JSON and CSV values as DDL, or an empty text."""
    schema = config.get("value.schema", "").strip()
    is_ddl = config.get("value.format", "json") in ("json", "csv")
    has_none = not is_ddl or config.get("value.registry") or has_reference(schema)
    return "" if has_none or schema.lower() in ("infer", "registry") else schema


def check_columns(pipeline: Pipeline, root: Node) -> list[Problem]:
    """Find columns of a sink's `value.schema` that the records of an app do not have."""
    return [
        problem
        for sink in pipeline.sinks
        if sink.config.get("value.format", "json") == "json"
        for problem in _missing_columns(sink, pipeline, root)
    ]


def _missing_columns(sink: Connector, pipeline: Pipeline, root: Node) -> Iterator[Problem]:
    names = column_names(_ddl(sink.config))
    for topic in sink.reads:
        writers = pipeline.writers_of(topic)
        plans = {each.name: each.plan for each in pipeline.apps if each.plan is not None}
        known = [plans[each].fields.get(topic) for each in writers if each in plans]
        if len(known) != len(writers) or not known or any(each is None for each in known):
            continue  # something else writes there too, or values without a type
        fields = sorted({name for each in known for name in each or ()})
        line = _line(root, sink, "value.schema")
        for name in names:
            if name not in fields:
                text = f"{_where(sink)}: value.schema has {name}, which the records of {topic} lack"
                hint = nearest(name, fields)
                yield warning(line, f"{text}{hint} (they have {', '.join(fields)})")


def column_names(ddl: str) -> list[str]:
    """Return the names of the columns of a DDL, without those inside of them."""
    names, depth, start = [], 0, 0
    for position, character in enumerate(f"{ddl},"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            found = _COLUMN.match(f"{ddl},", start)
            if found is not None and found.end() <= position:
                names.append(found[1].strip("`").replace("``", "`"))
            start = position + 1
    return names


def _where(connector: Connector) -> str:
    return f"{'sources' if connector.is_source else 'sinks'}.{connector.name}"


def _line(root: Node, connector: Connector, key: str) -> int:
    node: Any = root.entries()["sources" if connector.is_source else "sinks"]
    entries = node.entries()[connector.name].entries()
    inner = entries.get("config")
    entries = inner.entries() if inner is not None and inner.entries() else entries
    return entries[key].line if key in entries else connector.line
