"""Joins, lookups and queries over topics that other clients have written, beside the model.

The writer's partitioner, what the source declares of it, and a join, in two partitions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from moldau.records import partition_for_key
from moldau.streams import Streams, TopologyError
from moldau.streams.plan.misplaced import KeySample, MisplacedKey
from moldau.streams.plan.partitioners import CRC32, MURMUR2
from moldau.streams.plan.placement import placed_inputs, placements
from moldau.streams.problems import CoPartitionError
from moldau.streams.serdes.compound import reference_codec, subscription_codec
from moldau.streams.testing.driver import Driver

PARTITIONS: Final = 2
ROWS: Final = 20
Writer = Callable[[int, bytes], int]


def by_murmur2(_: int, key: bytes) -> int:
    return partition_for_key(key, PARTITIONS)


def by_crc32(_: int, key: bytes) -> int:
    return zlib.crc32(key) % PARTITIONS


def in_turn(at: int, _: bytes) -> int:
    return at % PARTITIONS


def by_last_byte(key: bytes, partitions: int) -> int:
    return key[-1] % partitions


WRITERS: Final[dict[str, Writer]] = {"murmur2": by_murmur2, "crc32": by_crc32, "in turn": in_turn}


def driver_of(app: Streams) -> Driver:
    counts = dict.fromkeys(app.plan().source_topics(), PARTITIONS)
    return app.test(partitions=counts, cache_bytes=0)


def write(driver: Driver, topic: str, rows: dict[str, Any], writer: Writer) -> None:
    for at, (key, value) in enumerate(rows.items()):
        driver.pipe(topic, value, key=key, partition=writer(at, key.encode()))


def last_of(driver: Driver) -> dict[str, Any]:
    return {row.key: row.value for row in driver.read("out") if row.value is not None}


def orders(count: int = ROWS) -> dict[str, str]:
    return {f"order-{at}": f"customer-{at % 7}" for at in range(count)}


def customers(version: str) -> dict[str, str]:
    return {f"customer-{at}": f"{version}-{at}" for at in range(5)}


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("right", [None, "crc32"])
def test_a_foreign_key_join_answers_to_the_partition_that_asked(
    kind: str, writer: str, right: Any
) -> None:
    """The left topic may be written in any way; the right one is as its source declares."""
    app = Streams("app")
    left = app.table("orders", str, key=str)
    other = app.table("customers", str, key=str, partitioner=right)
    join = left.join if kind == "inner" else left.left_join
    joined = join(other, lambda one, two: f"{one} {two}", on=lambda row: row, name="j")
    joined.changes().to("out")
    driver = driver_of(app)
    of_right = WRITERS[right or "murmur2"]
    seen: dict[str, Any] = {}

    write(driver, "customers", customers("a"), of_right)
    write(driver, "orders", orders(), WRITERS[writer])
    driver.pipe("orders", "customer-1", key=None, partition=1)
    for version in ("a", "b"):
        write(driver, "customers", customers(version), of_right)
        names = customers(version)
        expected = {
            key: f"{row} {names.get(row)}"
            for key, row in orders().items()
            if row in names or kind == "left"
        }
        seen |= last_of(driver)
        assert seen == expected
        assert driver.store("j") == expected
        driver.restart(from_changelog=version == "a")


def test_references_of_a_former_version_are_read() -> None:
    """Their records and rows have no partition; then the answer goes where its key says."""
    was = bytes([2]) + b"\0\0\0\x04left" + b"\0\0\0\x10" + b"h" * 16
    codec, kept = subscription_codec(), reference_codec()

    assert codec.decode(was) == (b"left", b"h" * 16, 2, None)
    assert codec.encode((b"left", b"h" * 16, 2, None)) == was
    assert codec.decode(codec.encode((b"left", b"h" * 16, 2, 7))) == (b"left", b"h" * 16, 2, 7)
    assert kept.decode(b"h" * 16) == (b"h" * 16, None)
    assert kept.decode(kept.encode((b"h" * 16, 7))) == (b"h" * 16, 7)


def joined_with_stream(partitioner: Any) -> Streams:
    """A lookup by the same key, and one by a new key, whose records go through a topic."""
    app = Streams("app")
    names = app.table("customers", str, key=str, partitioner=partitioner)
    clicks = app.stream("clicks", str, key=str, partitioner=partitioner)
    clicks.join(names, lambda click, name: f"{click} {name}").to("out")
    visits = app.stream("visits", str, key=str).select_key(lambda value: value)
    visits.join(names, lambda visit, name: f"{visit} {name}", name="v").to("visited")
    return app


@pytest.mark.parametrize(("declared", "writer"), [(None, by_murmur2), ("crc32", by_crc32)])
def test_lookups_find_the_rows_of_a_declared_partitioner(declared: Any, writer: Writer) -> None:
    driver = driver_of(joined_with_stream(declared))
    rows = {f"c{at}": f"name-{at}" for at in range(ROWS)}

    write(driver, "customers", rows, writer)
    write(driver, "clicks", dict.fromkeys(rows, "click"), writer)
    write(driver, "visits", {f"v{at}": f"c{at}" for at in range(ROWS)}, in_turn)

    assert last_of(driver) == {key: f"click {name}" for key, name in rows.items()}
    visited = {row.key: row.value for row in driver.read("visited")}
    assert visited == {key: f"{key} {name}" for key, name in rows.items()}


def test_a_function_says_how_a_topic_is_written() -> None:
    app = Streams("app")
    left = app.table("left", str, key=str, partitioner=by_last_byte)
    right = app.table("right", str, key=str, partitioner=by_last_byte)
    left.join(right, lambda one, two: f"{one} {two}").changes().to("out")
    driver = driver_of(app)
    rows = {f"k{at}": f"r{at}" for at in range(ROWS)}

    driver.pipe_all("left", [(key, "l", 0) for key in rows])
    driver.pipe_all("right", [(key, value, 0) for key, value in rows.items()])

    assert last_of(driver) == {key: f"l {value}" for key, value in rows.items()}


def test_topics_that_meet_by_key_are_written_in_one_way() -> None:
    app = Streams("app")
    crc32 = app.table("one", str, key=str, partitioner="crc32")
    crc32.join(app.table("two", str, key=str), lambda one, two: one).changes().to("out")

    with pytest.raises(CoPartitionError, match="one=crc32, two=murmur2; "):
        app.plan()

    mended = Streams("app")
    through = mended.stream("one", str, key=str, partitioner="crc32").repartition("moved")
    two = mended.table("two", str, key=str)
    through.join(two, lambda one, name: f"{one} {name}").to("out")
    driver = driver_of(mended)
    rows = {f"k{at}": f"r{at}" for at in range(ROWS)}
    write(driver, "two", rows, by_murmur2)
    write(driver, "one", dict.fromkeys(rows, "x"), by_crc32)
    assert last_of(driver) == {key: f"x {value}" for key, value in rows.items()}


@pytest.mark.parametrize("wrong", ["md5", 3, b"crc32"])
def test_an_unknown_partitioner_is_refused(wrong: Any) -> None:
    with pytest.raises(TopologyError, match='must be one of "murmur2", "crc32", or a function'):
        Streams("app").stream("in", partitioner=wrong)


def test_a_function_returns_a_partition_of_the_topic() -> None:
    app = Streams("app")
    app.table("in", str, key=str, partitioner=lambda key, partitions: 2)
    driver = driver_of(app)

    with pytest.raises(TopologyError, match="returned 2 for a topic with 2 partitions"):
        driver.pipe("in", "x", key="k")


def test_what_is_known_of_a_stores_keys() -> None:
    app = Streams("app")
    app.table("declared", str, key=str, partitioner="crc32")
    app.table("assumed", str, key=str)
    app.stream("in").group_by(str).count(name="own")
    free = app.stream("free").repartition("free", partitioner=lambda value: 0)
    free.group_by_key().count(name="chosen")
    plan = app.plan()

    found = {name: (each.partitioning, each.is_known) for name, each in placements(plan).items()}

    assert found == {
        "declared": (CRC32, True),
        "assumed": (MURMUR2, False),
        "own": (MURMUR2, True),
        "chosen": (MURMUR2, False),
    }
    assert placed_inputs(plan) == {"declared": CRC32, "assumed": MURMUR2}


def keys_in(partition: int, writer: Writer, count: int = 50) -> list[bytes]:
    keys = [f"key-{at}".encode() for at in range(count)]
    return [key for at, key in enumerate(keys) if writer(at, key) == partition]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("declared", [MURMUR2, CRC32])
def test_a_misplaced_key_is_found_once(writer: str, declared: Any) -> None:
    sample = KeySample({"in": declared}, {"in": PARTITIONS})
    found: list[MisplacedKey] = []
    for partition in (0, 1, 0, 1):
        keys = keys_in(partition, WRITERS[writer])
        found += [each for each in [sample.look("in", partition, [None, *keys])] if each]

    if writer == declared.name:
        assert not found
        return
    [one] = found
    assert declared.partition(one.key, PARTITIONS) == one.wanted != one.partition
    assert one.fitting == (None if writer == "in turn" else writer)
    assert "misplaced=in: " in str(one)
    assert ".repartition(" in str(one)


def test_keys_are_sampled_and_not_all_looked_at() -> None:
    hashed: list[bytes] = []

    def counting(key: bytes, partitions: int) -> int:
        hashed.append(key)
        return 0

    way = type(MURMUR2)("counting", counting)
    sample = KeySample({"in": way, "single": way}, {"in": 2, "single": 1})
    for _ in range(10):
        assert sample.look("in", 0, [b"k"] * 5000) is None
        assert sample.look("single", 0, [b"k"] * 5000) is None
        assert sample.look("other", 0, [b"k"] * 5000) is None

    assert len(hashed) == 100 + 9


def test_an_empty_key_is_spread_by_librdkafka() -> None:
    assert all(CRC32.fits(key, at, 2) for key in (b"", None) for at in (0, 1))
    assert not MURMUR2.fits(b"", 1 - partition_for_key(b"", 2), 2)
