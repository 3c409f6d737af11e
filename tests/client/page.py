"""docs/client-settings.md, made of the clients' rows; `python -m tests.client.page` writes it."""

from __future__ import annotations

from pathlib import Path

from moldau.client.settings import producer as producer_settings
from moldau.client.settings import rows
from moldau.client.settings import serdes as serde_rows
from moldau.client.settings.every_client import (
    RECORD_ROWS,
    WITHOUT_MEANING,
    WITHOUT_MEANING_PREFIXES,
    WITHOUT_MEANING_TO_ADMINS,
    WITHOUT_MEANING_TO_CONSUMERS,
)
from moldau.client.settings.group import rebalance_timeout_ms
from moldau.client.settings.serdes import DESERIALIZER_ROWS, SERDE_ROWS, SERIALIZER_ROWS
from moldau.client.settings.share import share_acknowledgement_mode, share_acquire_mode
from moldau.config import SettingTable, render_reference
from moldau.link.settings import CONNECTION_ROWS

PAGE = Path(__file__).parents[2] / "docs" / "client-settings.md"

_HEAD = """\
# Settings of the clients

`Producer`, `Consumer` and `Admin` take these as a mapping by their names, or as keywords with
underscores: `Producer(bootstrap_servers="localhost:9092", linger_ms=20)`. On the command line they
are given with `--set`, or in the file of `--command-config`; where the cluster is also with
`--bootstrap` or in the environment variable `MOLDAU_BOOTSTRAP`. No other variable is read. Only
what works is listed; any other name is refused.

This page is made of the rows that the program reads; `python -m tests.client.page` makes it anew.
"""


def render() -> str:
    """The whole page."""
    shared = CONNECTION_ROWS
    serdes = (*SERDE_ROWS, *SERIALIZER_ROWS, *DESERIALIZER_ROWS)
    tables = {
        "All clients": SettingTable(shared),
        "Producer": _own(rows.PRODUCER_SETTINGS),
        "Consumer": _own(rows.CONSUMER_SETTINGS),
        "ShareConsumer": SettingTable([share_acknowledgement_mode, share_acquire_mode]),
        "GroupMember": SettingTable([rebalance_timeout_ms]),
        "Producer and Consumer": SettingTable(RECORD_ROWS),
        "Serializers and the Schema Registry": SettingTable(serdes),
    }
    parts = [_HEAD]
    for title, table in tables.items():
        text = render_reference(table, title, in_environment=False).replace("\n## ", "\n### ")
        parts.append(f"#{text}")
    return "\n".join([*parts, _without_meaning()])


def _without_meaning() -> str:
    lines = [
        "## Known, and without effect",
        "",
        "Kafka's clients have these settings too. Values that Kafka takes are accepted, and a",
        "client that was given one logs once, as `moldau.client`, why it changes nothing.",
        "",
    ]
    for name, why in sorted(WITHOUT_MEANING.items()):
        lines.append(f"- `{name}`: {why}.")
    for name, why in sorted(WITHOUT_MEANING_PREFIXES.items()):
        lines.append(f"- `{name}*`: {why}.")
    for kind, names in (
        ("Producer, Consumer and serializers", serde_rows.WITHOUT_MEANING),
        ("Producer", producer_settings.WITHOUT_MEANING),
        ("Consumer", WITHOUT_MEANING_TO_CONSUMERS),
        ("Admin", WITHOUT_MEANING_TO_ADMINS),
    ):
        lines += [f"- `{name}` ({kind}): {why}." for name, why in sorted(names.items())]
    return "\n".join([*lines, ""])


def _own(table: SettingTable) -> SettingTable:
    elsewhere = (*CONNECTION_ROWS, *RECORD_ROWS, *SERDE_ROWS, *SERIALIZER_ROWS, *DESERIALIZER_ROWS)
    return SettingTable(row for row in table if row not in elsewhere)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
