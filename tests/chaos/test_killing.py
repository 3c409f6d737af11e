"""A few lives of a real process under load; `make chaos` has fifty."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.chaos.killing import Result, run_chaos

pytestmark = pytest.mark.real

CYCLES = 2


def test_a_broker_that_is_killed_under_load_keeps_its_promises(tmp_path: Path) -> None:
    lines: list[str] = []

    async def scenario(runtime: Runtime) -> Result:
        return await run_chaos(
            runtime,
            tmp_path,
            seed=1,
            cycles=CYCLES,
            tell=lines.append,
            with_librdkafka=find_spec("confluent_kafka") is not None,
        )

    result = run(scenario)

    assert result.cycles == CYCLES == len(lines)
    assert result.counts["acknowledged"] > 0
    assert result.counts["read"] > 0
