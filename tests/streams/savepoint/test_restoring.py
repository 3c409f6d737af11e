"""Where the rows of a savepoint go with another number of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from moldau.streams import Streams, tumbling, within
from moldau.streams.engine.batches import Outputs
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.partitioners import CRC32, MURMUR2, Partitioning
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import StateError
from moldau.streams.savepoint.restoring import _divisions, _records
from moldau.streams.savepoint.savepoint import Savepoint, save_log
from moldau.streams.state.spec import StoreSpec
from tests.streams.savepoint.places import FakePlace

KEYS = [f"k{at}".encode() for at in range(20)]
TIME = b"\0\0\0\0\0\0\0\x07"


def restored(
    plan: Plan,
    store: str,
    rows: Mapping[bytes, bytes],
    counts: tuple[Mapping[str, int], Mapping[str, int]],
    way: Partitioning = MURMUR2,
    width: int = 2,
) -> dict[bytes, int | None]:
    """Return, by the key of the records, the partition where a row of a store goes. `rows` are
    their keys in the changelog; they lay in `width` partitions."""
    before, after = (assumed_layout(plan, each) for each in counts)
    topic, place = f"{plan.app}-{store}-changelog", FakePlace()
    logs = []
    for partition in range(width):
        keys = [row for key, row in rows.items() if way.partition(key, width) == partition]
        found = Outputs(topic, [*keys], [b"1"] * len(keys), [7] * len(keys))
        logs.append(save_log(place, found, partition))
    savepoint = Savepoint(plan.app, 0, kept_topology(plan), before.counts, {}, {}, {}, tuple(logs))
    divisions = _divisions(savepoint, after)
    keys_of = {row: key for key, row in rows.items()}
    return {
        keys_of[key or b""]: partition
        for each in _records(place, savepoint, after, divisions)
        for key, partition in zip(each.keys, each.partitions or [], strict=True)
    }


def placed(keys: Iterable[bytes], count: int, way: Partitioning = MURMUR2) -> dict[bytes, int]:
    return {key: way.partition(key, count) for key in keys}


def joined() -> Plan:
    app = Streams("saved")
    left, right = (app.stream(name, str, key=str) for name in ("left", "right"))
    left.left_join(right, lambda one, two: one, within=within("5s"), name="pairs").to("out")
    return app.plan()


def counted(**options: Any) -> Plan:
    app = Streams("saved")
    app.stream("lines", str, key=str, **options).group_by_key().count(name="counts")
    return app.plan()


def windowed() -> Plan:
    app = Streams("saved")
    lines = app.stream("lines", str, key=str).group_by_key()
    lines.window(tumbling("1m")).count(name="counts")
    return app.plan()


@pytest.mark.parametrize(
    ("plan", "store", "front", "back"),
    [
        (counted(), "counts", b"", b""),
        (windowed(), "counts", b"", TIME + b"\0\0\0\0"),
        (joined(), "pairs-left", b"", TIME + b"\0\0\0\1"),
        (joined(), "pairs-waiting", TIME + b"\1", b""),
    ],
    ids=["table", "windows", "joined records", "records that wait"],
)
def test_rows_go_where_their_records_go(plan: Plan, store: str, front: bytes, back: bytes) -> None:
    inputs = plan.source_topics()
    rows = {key: front + key + back for key in KEYS}
    found = restored(plan, store, rows, (dict.fromkeys(inputs, 2), dict.fromkeys(inputs, 3)))
    assert found == placed(KEYS, 3)


def test_the_keys_of_records_that_wait_come_after_their_time_and_side() -> None:
    (spec,) = (each for each in stores(joined()) if each.name == "pairs-waiting")
    assert spec.key.encode((7, 1, "k1")) == TIME + b"\1k1"


def stores(plan: Plan) -> list[StoreSpec]:
    return [store for program in plan.programs for store in program.stores]


def test_rows_that_another_partitioner_has_placed_need_its_name() -> None:
    rows = {key: key for key in KEYS}
    counts = {"lines": 2}, {"lines": 3}
    with pytest.raises(StateError, match=r"say how lines is written, partitioner=\.\.\."):
        restored(counted(), "counts", rows, counts, CRC32)
    found = restored(counted(partitioner="crc32"), "counts", rows, counts, CRC32)
    assert found == placed(KEYS, 3, CRC32)
    same = {"lines": 2}, {"lines": 2}
    assert restored(counted(), "counts", rows, same, CRC32) == placed(KEYS, 2, CRC32)


def test_keys_lie_in_as_many_partitions_as_what_feeds_their_store() -> None:
    """A sub-topology has as many tasks as its largest input has partitions."""
    app = Streams("saved")
    lines, other = (app.stream(name, str, key=str) for name in ("lines", "other"))
    lines.group_by_key().count(name="counts")
    lines.merge(other).to("out")
    plan, rows = app.plan(), {key: key for key in KEYS}

    grown = restored(plan, "counts", rows, ({"lines": 2, "other": 3}, {"lines": 3, "other": 3}))
    assert grown == placed(KEYS, 3)
    stays = restored(plan, "counts", rows, ({"lines": 2, "other": 2}, {"lines": 2, "other": 3}))
    assert stays == placed(KEYS, 2)
