"""The steps of a plan: what each operator does, as plain data with the user's functions in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Operation:
    """What a step does. The subclasses are its kinds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: its name, the steps it takes records from, and what it does.

    `key_type` and `value_type` are the types of what comes out; Any where nobody said.
    """

    name: str
    parents: tuple[str, ...]
    operation: Operation
    key_type: Any = Any
    value_type: Any = Any
