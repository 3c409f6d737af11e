"""`--workers` and `moldau streams workers`: numbers, and `auto`."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from moldau.runtime import process_figures
from moldau.streams.commands.workers_action import processes
from tests.cli.shell import Shell


@pytest.mark.parametrize(
    ("cores", "count"), [(1, 1), (2, 2), (3, 3), (4, 3), (8, 6), (16, 12), (6, 5)]
)
def test_auto_leaves_one_core_in_four_to_others(
    monkeypatch: pytest.MonkeyPatch, cores: int, count: int
) -> None:
    monkeypatch.setattr(process_figures, "core_count", lambda: cores)
    assert processes("auto") == count


def test_a_number_is_itself() -> None:
    assert (processes("1"), processes("1000")) == (1, 1000)
    for text in ("0", "1001", "-2", "two", "AUTO", ""):
        with pytest.raises(ArgumentTypeError):
            processes(text)


@pytest.mark.parametrize("count", ["0", "-1", "two", "auto"])
def test_a_running_app_gets_numbers_alone(count: str) -> None:
    done = Shell("127.0.0.1:1")("streams", "workers", "wc:app", count)
    assert (done.code, "is no number from 1 to 1000" in done.err) == (2, True)
