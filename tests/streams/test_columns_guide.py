"""docs/columns.md: every block of Python runs as it stands there. That of Spark runs in
tests/spark/test_expressions.py."""

from __future__ import annotations

import pytest

from tests.client.guides import programs

GUIDE = "columns.md"


def test_the_program_of_the_guide_runs() -> None:
    topology, _, _ = programs(GUIDE)

    exec(compile(topology, GUIDE, "exec"), {"__name__": "guide"})  # noqa: S102


def test_the_program_on_an_arrow_table_runs() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    _, on_arrow, _ = programs(GUIDE)

    exec(compile(on_arrow, GUIDE, "exec"), {"__name__": "guide"})  # noqa: S102
