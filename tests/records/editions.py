"""Two editions of `moldau.records` in one process: with the compiled kernel, and without it.

The pure edition is a second copy of the package, imported while `_speed` is barred, so that every
test of the package runs over both kernels and not only over the one that happens to be installed.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import Any

import pytest

PACKAGE = "moldau.records"
KERNEL = {"compiled": "_speed", "pure": "_pure"}


def _modules() -> dict[str, Any]:
    return {
        name: module
        for name, module in sys.modules.items()
        if name == PACKAGE or name.startswith(PACKAGE + ".")
    }


@cache
def edition(name: str) -> dict[str, Any]:
    """All modules of the edition, by what follows `moldau.records.` in their names."""
    before = _modules()
    parent = sys.modules["moldau"] if "moldau" in sys.modules else importlib.import_module("moldau")
    for module in before:
        del sys.modules[module]
    if name == "pure":
        sys.modules[f"{PACKAGE}._speed"] = None  # type: ignore[assignment]
    try:
        package = importlib.import_module(PACKAGE)
        if name == "compiled" and package.KERNEL != "compiled":
            pytest.skip("the compiled kernel is not installed")
        assert name == package.KERNEL
        modules = {"": package, "kernel": importlib.import_module(f"{PACKAGE}.{KERNEL[name]}")}
        modules |= {
            module.removeprefix(f"{PACKAGE}."): loaded
            for module, loaded in _modules().items()
            if module != PACKAGE and loaded is not None and module != f"{PACKAGE}.kernel"
        }
        return modules
    finally:
        for module in _modules():
            del sys.modules[module]
        sys.modules.update(before)
        if PACKAGE in before:
            parent.records = before[PACKAGE]  # type: ignore[attr-defined]
