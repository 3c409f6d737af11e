"""The pins of the whole house."""

from __future__ import annotations

from tests.architecture.sources import ROOT


def constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
