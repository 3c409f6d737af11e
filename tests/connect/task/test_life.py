"""The log of a task's process."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator

import pytest

from moldau.connect.task.life import live_in_process


class _Pipe:
    """A pipe of a worker that ends the process at once."""

    def send(self, line: bytes) -> None:
        """Nothing reads it."""

    def listen(self, take: Callable[[bytes], None]) -> None:
        take(b'{"run":0,"message":{"type":"end"}}')


@pytest.fixture
def _process() -> Iterator[None]:
    """Restores what a task's process changes for all of its code."""
    root, connectors = logging.getLogger(), logging.getLogger("moldau.connectors")
    before = list(root.handlers), root.level, connectors.level, gc.get_threshold()
    yield
    root.handlers[:], level, own_level, threshold = before
    root.setLevel(level)
    connectors.setLevel(own_level)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_process")
def test_lines_of_connectors_are_written_and_those_of_libraries_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live_in_process(_Pipe())  # type: ignore[arg-type]

    logging.getLogger("moldau.connectors.spark").info("finished")
    logging.getLogger("pyiceberg").info("opened")
    logging.getLogger("pyiceberg").warning("slow")
    lines = capsys.readouterr().err
    assert "finished" in lines
    assert "slow" in lines
    assert "opened" not in lines
