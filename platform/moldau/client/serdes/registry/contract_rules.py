"""The rules of a data contract (a schema's rule set), which these serdes do not run.

A value that is written past a rule breaks the contract without a word: a condition is not checked,
a field is not encrypted. So a schema with rules that count for a value is refused, unless the
setting `data.contract.rules` says that they are to be left aside.

Invariant: only rules that another client would run are refused: those that are not disabled, for
this direction. Rules that migrate between versions are for readers with the latest schema alone,
which no deserializer here is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau.client.settings.serdes import data_contract_rules as row
from moldau.errors import ConfigError
from moldau.values.schema import Schema

IGNORE: Final = "ignore"
REFUSE: Final = "refuse"
_WRITES: Final = ("WRITE", "WRITEREAD")
_READS: Final = ("READ", "WRITEREAD")
_GROUPS: Final = ("domainRules", "encodingRules")


class RulesNotRun(ConfigError):
    """A schema has rules that would have to be run."""


def check_rules(schema: Schema, *, is_write: bool, **facts: object) -> None:
    """Raise RulesNotRun, with the facts, if the schema has a rule for what is written (or read)."""
    found = list(_active(schema.rules or {}, _WRITES if is_write else _READS))
    if found:
        done = "written" if is_write else "read"
        raise RulesNotRun(
            f"the schema has rules that are not run here, so nothing is {done} by it: "
            f"{', '.join(found)}. Use another client for this subject, or set {row.name}={IGNORE} "
            "to leave the rules aside",
            **facts,
        )


def _active(rules: Mapping[str, Any], modes: tuple[str, ...]) -> Iterator[str]:
    """Yield the name and type of each rule that counts."""
    for group in _GROUPS:
        for rule in rules.get(group) or ():
            if not rule.get("disabled") and rule.get("mode", _WRITES[1]) in modes:
                yield f"{rule.get('name', '?')} ({rule.get('type', '?')})"
