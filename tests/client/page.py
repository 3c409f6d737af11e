"""docs/client-settings.md, made of the clients' rows; `python -m tests.client.page` writes it."""

from __future__ import annotations

from pathlib import Path

from moldau.client import settings as rows
from moldau.config import SettingTable, render_reference

PAGE = Path(__file__).parents[2] / "docs" / "client-settings.md"

_HEAD = """\
# Settings of the clients

`Producer`, `Consumer` and `Admin` take these as a mapping by their names, or as keywords with
underscores: `Producer(bootstrap_servers="localhost:9092", linger_ms=20)`. On the command line they
are given with `--set`. Only what works is listed; any other name is refused.

This page is made of the rows that the program reads; `python -m tests.client.page` makes it anew.
"""


def render() -> str:
    """The whole page."""
    shared = rows.CONNECTION_ROWS
    tables = {
        "All clients": SettingTable(shared),
        "Producer": _own(rows.PRODUCER_SETTINGS),
        "Consumer": _own(rows.CONSUMER_SETTINGS),
    }
    parts = [_HEAD]
    for title, table in tables.items():
        text = render_reference(table, title).replace("\n## ", "\n### ")
        parts.append(f"#{text}")
    return "\n".join(parts)


def _own(table: SettingTable) -> SettingTable:
    return SettingTable(row for row in table if row not in rows.CONNECTION_ROWS)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
