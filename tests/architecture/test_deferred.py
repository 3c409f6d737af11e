"""Dataclasses of the product come from `moldau.deferred`: a start makes no method that it does not
use."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.architecture.allowed import check
from tests.architecture.sources import Source, product

HOME = "platform/moldau/deferred/"


def eager(sources: Iterable[Source]) -> dict[str, str]:
    """Return the modules that import `dataclass` from the standard library."""
    return {
        source.path: "takes dataclass from dataclasses, not from moldau.deferred"
        for source in sources
        if not source.path.startswith(HOME)
        for _, node in source.statements
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(each.name == "dataclass" for each in node.names)
    }


def test_dataclasses_are_deferred() -> None:
    check("eager_dataclasses", eager(product()))


def test_an_eager_dataclass_is_found() -> None:
    text = "from dataclasses import dataclass, field"

    assert eager([Source("broker/moldau/broker/log/log.py", text)]).keys() == {
        "broker/moldau/broker/log/log.py"
    }
    assert eager([Source("broker/moldau/broker/log/log.py", "from dataclasses import field")]) == {}
    assert eager([Source(f"{HOME}__init__.py", text)]) == {}
