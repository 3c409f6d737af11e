"""Render the page of all settings from their rows: docs/settings.md."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.settings import group, topic
from moldau.broker.settings.description import written
from moldau.broker.settings.meaning import FORGOTTEN, IGNORED, REMOVED
from moldau.broker.settings.of_listener import BY_MECHANISM, OAUTH_ROWS, ROWS
from moldau.broker.settings.resource import Default
from moldau.broker.settings.tables import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
)
from moldau.broker.settings.unbuilt import NAMED, UNBUILT
from moldau.broker.settings.waiting import WAITING
from moldau.config import SettingTable, render_reference
from moldau.config.table import Row

_HEAD = """\
# Settings

Every setting of Apache Kafka 4.3 is known here under its own name, so a `server.properties` works
as it is. A broker's settings come from its file, the environment and the command line; topics,
groups and client metrics subscriptions have their own, which the cluster keeps.

This page is made of the rows that the program reads; `python -m tests.broker.settings.renew` makes
it anew.
"""


def render() -> str:
    """Return the whole page as Markdown."""
    broker = render_reference(BROKER_SETTINGS, "Broker").replace("\n## ", "\n### ")
    parts = (
        _HEAD,
        _resources("Topics", TOPIC_SETTINGS, topic.BROKER_DEFAULTS),
        _resources("Groups", GROUP_SETTINGS, group.BROKER_DEFAULTS),
        _resources("Client metrics subscriptions", CLIENT_METRICS_SETTINGS, {}),
        _of_listeners(),
        _names("Without effect", "These are accepted and change nothing:", IGNORED),
        _names(
            "Without effect yet",
            "These belong to what is not built yet, or all names that begin so:",
            WAITING,
        ),
        _names("Gone, and refused", "A name that ends in a point stands for many:", REMOVED),
        _names("Gone, and only mentioned", "The log mentions each once if it is given:", FORGOTTEN),
        _unbuilt(),
        f"#{broker}",
    )
    return "\n".join(parts)


def _resources(title: str, table: SettingTable, defaults: Mapping[Row, Default]) -> str:
    lines = [f"## {title}", "", "| name | type | default | what |", "|-|-|-|-|"]
    for row in sorted(table, key=lambda row: row.name):
        allowed = "" if row.check is None else f" Allowed: {row.check.allowed}."
        what = f"{row.doc}{allowed}".replace("|", "\\|")
        lines.append(
            f"| `{row.name}` | {row.kind.name} | {_default(row, defaults.get(row))} | {what} |"
        )
    return "\n".join((*lines, ""))


def _default(row: Row, default: Default | None) -> str:
    if default is not None:
        return f"the broker's `{default.setting.name}`"
    if row.default is None:
        return "none"
    text = written(row, row.default)
    return f"`{text}`" if text else "empty"


def _unbuilt() -> str:
    lines = [f"- `{row.name}`: {what}." for row, what in UNBUILT]
    lead = "A node does not start while its settings ask for one of these:"
    lines += [
        f"- `{row.name}`: other classes of Java; {each.instead}." for row, each in NAMED.items()
    ]
    return "\n".join(("## Not built yet", "", lead, "", *lines, ""))


def _of_listeners() -> str:
    own = ", ".join(f"`{name}`" for name in sorted(row.name for row in ROWS | OAUTH_ROWS))
    by_mechanism = ", ".join(f"`{row.name}`" for row in BY_MECHANISM if row in ROWS)
    return f"""\
## For one listener

A listener may have its own value of these, as `listener.name.<listener>.<setting>`, the listener in
lower case: {own}.

Below a mechanism, as in `listener.name.sasl_ssl.plain.sasl.jaas.config`: {by_mechanism}, and with
`oauthbearer` all of `sasl.oauthbearer.` that are listed above. A broker warns at its start of any
other name there.
"""


def _names(title: str, lead: str, names: Mapping[str, str]) -> str:
    lines = [f"- `{name}`: {why}." for name, why in sorted(names.items())]
    return "\n".join((f"## {title}", "", lead, "", *lines, ""))
