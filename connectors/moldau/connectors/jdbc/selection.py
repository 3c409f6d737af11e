"""Which tables a source reads, and which task reads which."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from moldau.connectors.jdbc.columns import TableId
from moldau.connectors.jdbc.source_settings import SourceConfig

TABLES_KEY = "tables"


def selected(config: SourceConfig, tables: Sequence[TableId]) -> list[TableId]:
    """Those of the database's tables that the settings choose."""
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
    """Names in table.whitelist that no table has."""
    return [name for name in config.whitelist if not any(_is_named(t, [name]) for t in tables)]


def missing(config: SourceConfig, tables: Sequence[TableId]) -> str | None:
    """Why a source has less to read than its settings name, or nothing: `cause -> hint`."""
    names = unmatched(config, tables)
    if names:
        return f"no table is called {', '.join(names)} -> correct table.whitelist, or create it"
    if not tables:
        return "no table of the database fits the settings -> look at table.* and schema.*"
    return None


def divided(tables: Sequence[TableId], max_tasks: int) -> list[list[TableId]]:
    """The tables in at most `max_tasks` groups of nearly one size, neighbours together."""
    count = min(len(tables), max_tasks)
    groups = []
    for number in range(count):
        start, end = number * len(tables) // count, (number + 1) * len(tables) // count
        groups.append(list(tables[start:end]))
    return groups


def tables_to_text(tables: Sequence[TableId]) -> str:
    """A task's share as the text of one setting."""
    return json.dumps([[table.catalog, table.schema, table.name] for table in tables])


def tables_from_text(text: str) -> list[TableId]:
    return [TableId(*parts) for parts in json.loads(text)] if text else []


def spellings(table: TableId) -> list[str]:
    """How users name a table: alone, with its schema, with its database."""
    parts = [part for part in (table.catalog, table.schema, table.name) if part]
    return [".".join(parts[start:]) for start in range(len(parts))]


def _is_named(table: TableId, names: Sequence[str]) -> bool:
    plain = {name.replace('"', "").replace("`", "") for name in names}
    return any(spelling in plain for spelling in spellings(table))


def _matches(table: TableId, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(p, spelling) for p in patterns for spelling in spellings(table))
