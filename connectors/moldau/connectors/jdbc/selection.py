"""Selects the tables that a source reads, and divides them among tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from moldau.connectors.jdbc.columns import TableId
from moldau.connectors.jdbc.source_settings import SourceConfig

TABLES_KEY = "tables"


def selected(config: SourceConfig, tables: Sequence[TableId]) -> list[TableId]:
    """Return those of the database's tables that the settings choose."""
    if config.whitelist:
        return [table for table in tables if _is_named(table, config.whitelist)]
    if config.blacklist:
        return [table for table in tables if not _is_named(table, config.blacklist)]
    if config.include:
        return [
            table
            for table in tables
            if _matches(table, config.include) and not _matches(table, config.exclude)
        ]
    return list(tables)


def unmatched(config: SourceConfig, tables: Sequence[TableId]) -> list[str]:
    """Return the names in table.whitelist that match no table."""
    return [name for name in config.whitelist if not any(_is_named(t, [name]) for t in tables)]


def missing(config: SourceConfig, tables: Sequence[TableId]) -> str | None:
    """Return why not all wanted tables exist, as `cause -> hint`; None if they do."""
    names = unmatched(config, tables)
    if names:
        views = "" if "VIEW" in config.table_types else "; views need table.types=VIEW"
        hint = f"correct table.whitelist, or create it{views}"
        return f"no table is called {', '.join(names)} -> {hint}"
    if not tables:
        return "no table of the database fits the settings -> look at table.* and schema.*"
    return None


def divided(tables: Sequence[TableId], max_tasks: int) -> list[list[TableId]]:
    """Divide the tables into at most `max_tasks` groups of similar size, neighbours together."""
    count = min(len(tables), max_tasks)
    groups = []
    for number in range(count):
        start, end = number * len(tables) // count, (number + 1) * len(tables) // count
        groups.append(list(tables[start:end]))
    return groups


def tables_to_text(tables: Sequence[TableId]) -> str:
    """Return a task's tables as the text of one setting."""
    return json.dumps([[table.catalog, table.schema, table.name] for table in tables])


def tables_from_text(text: str) -> list[TableId]:
    return [TableId(*parts) for parts in json.loads(text)] if text else []


def spellings(table: TableId) -> list[str]:
    """Return the names of a table that users may write: alone, with schema, with database."""
    parts = [part for part in (table.catalog, table.schema, table.name) if part]
    return [".".join(parts[start:]) for start in range(len(parts))]


def _is_named(table: TableId, names: Sequence[str]) -> bool:
    plain = {name.replace('"', "").replace("`", "") for name in names}
    return any(spelling in plain for spelling in spellings(table))


def _matches(table: TableId, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(p, spelling) for p in patterns for spelling in spellings(table))
