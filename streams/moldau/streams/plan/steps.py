"""One operator of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moldau.streams.plan.operations import Operation
from moldau.streams.plan.policies import Policy


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: its name, the steps it takes records from, and what it does.

    `key_type` and `value_type` are the types of its output; Any where none was declared.
    `is_rekeyed` says that a key may have changed since records were last sent to the partition of
    their key. `lookups` are tables whose rows the step reads, without receiving their updates.
    """

    name: str
    parents: tuple[str, ...]
    operation: Operation
    key_type: Any = Any
    value_type: Any = Any
    is_rekeyed: bool = False
    is_table: bool = False
    on_error: Policy | None = None
    lookups: tuple[str, ...] = ()
