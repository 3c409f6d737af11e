"""The reference page of a setting table, in Markdown, from the rows that the program checks."""

from __future__ import annotations

from moldau.config.environment import variable_name
from moldau.config.setting import INHERITED, REQUIRED
from moldau.config.table import Row, SettingTable


def render_reference(table: SettingTable, title: str, *, in_environment: bool = True) -> str:
    """Return one section for each setting, in alphabetical order. `in_environment`: the settings
    are also taken from environment variables."""
    rows = sorted(table, key=lambda row: row.name)
    sections = (_section(row, in_environment=in_environment) for row in rows)
    return "\n".join((f"# {title}", "", *sections))


def _section(row: Row, *, in_environment: bool) -> str:
    facts = {
        "Type": row.kind.name,
        "Default": _default(row),
        "Allowed": row.allowed if row.check is not None else None,
        "Importance": row.importance.value,
        "Can change": row.dynamic.value,
        "Environment": f"`{variable_name(row.name)}`" if in_environment else None,
        "Earlier names": ", ".join(f"`{alias}`" for alias in row.aliases) or None,
        "Deprecated": row.deprecated,
    }
    lines = [f"- {name}: {fact}" for name, fact in facts.items() if fact is not None]
    return "\n".join((f"## `{row.name}`", "", row.doc, "", *lines, ""))


def _default(row: Row) -> str:
    if row.default is REQUIRED:
        return "none, must be given"
    if row.default is INHERITED:
        assert row.fallback is not None
        return f"from `{row.fallback.setting.name}`"
    if row.default is None:
        text = "none"
    else:
        written = row.write(row.default)
        text = "hidden" if written is None else f"`{written}`" if written else "empty"
    if row.fallback is not None:
        text += f" (or from `{row.fallback.setting.name}`, if that is given)"
    return text
