"""A move that is cut short is done again with the same checkpoint, wherever it was cut.

The part on Spark runs without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.streams import Streams
from moldau.streams.problems import StreamsError
from moldau.streams.spark import moving
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.moving import to_embedded, to_spark
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.streams.spark.moves import check_counts, given, on_stages

ROOT = Path(__file__).parents[3]
_WAIT_S = 60.0
_KILLED = """
import os, signal, sys
from moldau.streams.spark import moving
from tests.spark import streams_apps as apps
from tests.streams.spark.moves import given

servers, name, checkpoint = sys.argv[1:]
whole = moving.write_whole


def killed(producer, records, offsets):
    send = producer.send_offsets
    def last(*given):
        send(*given)
        os.kill(os.getpid(), signal.SIGKILL)
    producer.send_offsets = last
    whole(producer, records, offsets)


moving.write_whole = killed
moving.to_embedded(apps.word_count(name).plan(), checkpoint, given(servers))
"""


class Cut(Exception):
    """The move was cut short here."""


def cut(owner: Any, name: str, *, is_after: bool = False) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what lets a move end before, or after, it calls this."""
    whole = getattr(owner, name)

    def cutting(*given: Any, **named: Any) -> Any:
        if is_after:
            whole(*given, **named)
        raise Cut

    return lambda patch: patch.setattr(owner, name, cutting)


@pytest.mark.parametrize(
    "at",
    [
        cut(Checkpoint, "start_move", is_after=True),
        cut(Checkpoint, "take_id", is_after=True),
        cut(moving, "take_over", is_after=True),
        cut(Checkpoint, "begin", is_after=True),
    ],
    ids=["noted", "copied", "recorded", "begun"],
)
def test_a_move_to_spark_is_done_again(
    moldau_broker: SyncEmbeddedBroker,
    counted: Streams,
    tmp_path: Path,
    at: Callable[[pytest.MonkeyPatch], None],
) -> None:
    servers, checkpoint = moldau_broker.bootstrap_servers, str(tmp_path / "checkpoint")
    apps.embedded(servers, counted, tmp_path / "state")
    with pytest.MonkeyPatch.context() as patch:
        at(patch)
        with pytest.raises(Cut):
            to_spark(counted.plan(), checkpoint, given(servers))
    with pytest.raises(StreamsError, match="a move to it was cut short: move the app again"):
        on_stages(servers, counted, tmp_path)
    with pytest.raises(StreamsError, match="a move to it was cut short: move the app to Spark"):
        to_embedded(counted.plan(), checkpoint, given(servers))

    apps.write(servers, counted.name, 20, 10, has_cities=False)
    apps.embedded(servers, counted, tmp_path / "state")  # nothing has moved, so it may go on there
    moved = to_spark(counted.plan(), checkpoint, given(servers))
    assert moved.rows > 0
    assert "anew" in moved.note
    apps.write(servers, counted.name, 30, 10, has_cities=False)
    on_stages(servers, counted, tmp_path)
    check_counts(servers, counted, 40)


def test_between_its_marks_and_its_end_a_move_to_spark_leaves_the_app_to_neither_engine(
    moldau_broker: SyncEmbeddedBroker, counted: Streams, tmp_path: Path
) -> None:
    servers, checkpoint = moldau_broker.bootstrap_servers, str(tmp_path / "checkpoint")
    apps.embedded(servers, counted, tmp_path / "state")
    with pytest.MonkeyPatch.context() as patch:
        cut(Checkpoint, "end_move")(patch)
        with pytest.raises(Cut):
            to_spark(counted.plan(), checkpoint, given(servers))
    with pytest.raises(StreamsError, match="a move to it was cut short: move the app again"):
        on_stages(servers, counted, tmp_path)
    with pytest.raises(StreamsError, match="it has moved to Spark: run it there"):
        apps.embedded(servers, counted, tmp_path / "state")

    assert "anew" in to_spark(counted.plan(), checkpoint, given(servers)).note
    apps.write(servers, counted.name, 20, 10, has_cities=False)
    on_stages(servers, counted, tmp_path)
    check_counts(servers, counted, 30)


@pytest.mark.parametrize(
    ("at", "is_whole", "guarantee"),
    [
        (cut(moving, "take_up", is_after=True), False, "exactly_once_v2"),
        (cut(moving, "write_whole"), False, "exactly_once_v2"),
        (cut(moving, "write_whole", is_after=True), True, "exactly_once_v2"),
        (cut(moving, "write_whole", is_after=True), True, "at_least_once"),
    ],
    ids=["taken", "read", "written", "without-transactions"],
)
def test_a_move_to_the_embedded_engine_is_done_again(
    moldau_broker: SyncEmbeddedBroker,
    counted: Streams,
    tmp_path: Path,
    at: Callable[[pytest.MonkeyPatch], None],
    guarantee: str,
    *,
    is_whole: bool,
) -> None:
    servers, checkpoint = moldau_broker.bootstrap_servers, str(tmp_path / "checkpoint")
    settings = given(servers, **{"processing.guarantee": guarantee})

    def on_spark() -> None:
        on_stages(servers, counted, tmp_path, guarantee)

    on_spark()
    with pytest.MonkeyPatch.context() as patch:
        at(patch)
        with pytest.raises(Cut):
            to_embedded(counted.plan(), checkpoint, settings)
    apps.write(servers, counted.name, 20, 10, has_cities=False)
    if is_whole:
        with pytest.raises(StreamsError, match="the app has moved to the embedded engine"):
            on_spark()
        apps.embedded(servers, counted, tmp_path / "state")
    else:
        on_spark()  # nothing has moved, so it may go on there

    moved = to_embedded(counted.plan(), checkpoint, settings)
    assert ("carried all" in moved.note) == is_whole
    apps.write(servers, counted.name, 30, 10, has_cities=False)
    apps.embedded(servers, counted, tmp_path / "state")
    check_counts(servers, counted, 40)
    with pytest.raises(StreamsError, match="its app has moved to the embedded engine"):
        to_embedded(counted.plan(), checkpoint, settings)


def test_a_move_that_was_killed_in_its_transaction_is_done_again(
    moldau_broker: SyncEmbeddedBroker, counted: Streams, tmp_path: Path
) -> None:
    servers, checkpoint = moldau_broker.bootstrap_servers, str(tmp_path / "checkpoint")
    on_stages(servers, counted, tmp_path)
    killed = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _KILLED, servers, counted.name, checkpoint],
        cwd=ROOT,
        capture_output=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    assert to_embedded(counted.plan(), checkpoint, given(servers)).rows > 0
    apps.write(servers, counted.name, 20, 10, has_cities=False)
    apps.embedded(servers, counted, tmp_path / "state")
    check_counts(servers, counted, 30)
