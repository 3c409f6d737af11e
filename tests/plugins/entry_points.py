"""Entry points as `importlib.metadata` gives them, without installing anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FakeDistribution:
    name: str
    version: str = "1.0"


@dataclass(frozen=True)
class FakeEntryPoint:
    group: str
    name: str
    value: str
    dist: FakeDistribution | None = FakeDistribution("somebody-else")


def point(group: str, name: str, value: str, distribution: str = "somebody-else") -> FakeEntryPoint:
    return FakeEntryPoint(f"moldau.{group}", name, value, FakeDistribution(distribution))
