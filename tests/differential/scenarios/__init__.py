"""Scenarios: one module a topic, found by its name. See tests/differential/README.md.

A module has `async def scenario(talk: Talk) -> None`, and `SETTINGS` if its broker needs some.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from tests.differential.peers import Scenario


class Described(NamedTuple):
    """A scenario and the settings that its broker starts with."""

    play: Scenario
    settings: Mapping[str, str]


@cache
def scenarios() -> dict[str, Described]:
    """All of them by name."""
    found = {}
    for each in iter_modules(__path__):
        module = import_module(f"{__name__}.{each.name}")
        found[each.name] = Described(module.scenario, getattr(module, "SETTINGS", {}))
    return found
