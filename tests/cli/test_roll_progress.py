"""A roll that was cut short goes on as its file says, and does not restart other nodes unasked."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cli.command import UsageError
from moldau.cli.commands.cluster_roll import _progress, roll
from moldau.operations.roll import RollProgress

SEEN: Any = SimpleNamespace(described=SimpleNamespace(cluster_id="an-id"), nodes=[1, 2, 3])


def progress_of(path: Path, nodes: list[int] | None) -> RollProgress:
    return _progress(Namespace(progress=str(path), nodes=nodes), SEEN)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The progress of a roll of two nodes that has not restarted any."""
    path = tmp_path / "roll.json"
    path.write_text(RollProgress("an-id", [2, 3]).text())
    return path


def test_the_nodes_of_a_roll_that_goes_on_may_be_named_again(kept: Path) -> None:
    assert progress_of(kept, None).nodes == [2, 3]
    assert progress_of(kept, [3, 2]).nodes == [2, 3]


def test_other_nodes_than_those_of_an_unfinished_roll_are_refused(kept: Path) -> None:
    with pytest.raises(UsageError, match=r"a roll of 2,3 is not finished.*roll\.json"):
        progress_of(kept, [1])


def test_json_is_refused_where_it_has_no_effect() -> None:
    context: Any = None
    with pytest.raises(UsageError, match="--dry-run"):
        roll(Namespace(json=True, dry_run=False), context)
