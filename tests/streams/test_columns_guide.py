"""docs/columns.md: every block of Python runs as it stands there."""

from __future__ import annotations

from tests.client.guides import programs

GUIDE = "columns.md"


def test_the_program_of_the_guide_runs() -> None:
    [program] = programs(GUIDE)

    exec(compile(program, GUIDE, "exec"), {"__name__": "guide"})  # noqa: S102
