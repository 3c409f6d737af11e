"""The allow-list: what breaks a rule today, and the check that it can only shrink.

Invariants:
* A violation that is not listed fails the rule.
* An entry that nothing needs any more fails the rule too, so the list cannot keep dead rows.
* For a size the entry is the size of today: growing fails, and so does shrinking without taking
  the entry down with it.
* Every other entry is the reason why, in words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

Found = Mapping[str, int | str]
"""Violations of one rule: where -> the size (for size rules) or what is wrong."""

FILE = Path(__file__).parent / "allowed.toml"


@cache
def allowed(rule: str) -> Found:
    """The entries of one rule; a rule without a table in the file has none."""
    table: Found = tomllib.loads(FILE.read_text(encoding="utf-8")).get(rule, {})
    return table


def problems(found: Found, entries: Found) -> list[str]:
    """What is wrong between the violations found and the entries that allow them."""
    lines = []
    for where, what in sorted(found.items()):
        if where not in entries:
            lines.append(f"{where}: {what}")
        elif isinstance(what, int) and entries[where] != what:
            lines.append(f"{where}: now {what}, allowed.toml says {entries[where]}")
        elif isinstance(what, str) and not str(entries[where]).strip():
            lines.append(f"{where}: its entry in allowed.toml gives no reason")
    lines += [
        f"{where}: allowed.toml allows it, but nothing needs that any more: take the entry out"
        for where in sorted(entries.keys() - found.keys())
    ]
    return lines


def check(rule: str, found: Found) -> None:
    """Fail with every line that must change, either in the code or in allowed.toml."""
    wrong = problems(found, allowed(rule))
    assert not wrong, f"house rule [{rule}]:\n" + "\n".join(wrong)
