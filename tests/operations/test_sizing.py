"""The size of a cluster: from the committed benches, and never smaller for a larger load."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bench.__main__ import RESULTS
from bench.pages import median_in
from moldau.errors import ConfigError
from moldau.operations.sizing import (
    CODECS,
    MEASURED,
    PRODUCE_PLAIN_LIBRDKAFKA,
    Load,
    Row,
    estimate,
)
from tests.architecture.sources import ROOT

LOAD = Load(50, 100)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.name)
def test_each_measured_number_is_that_of_its_bench(row: Row) -> None:
    page = (RESULTS / f"{row.page}.md").read_text(encoding="utf-8")
    assert median_in(page, row.table, row.case) == (row.value, row.unit)


def test_the_number_of_the_notes_is_there() -> None:
    notes = (ROOT / "bench" / "notes-broker.md").read_text(encoding="utf-8")
    assert f"{PRODUCE_PLAIN_LIBRDKAFKA} s a GB over plaintext, 2.81 over" in notes


def test_the_load_that_three_nodes_carried_fits_their_two_cores() -> None:
    """The client was on them, too, so the nodes had less."""
    (carried,) = [row.value for row in MEASURED if row.name == "three nodes"]
    found = estimate(Load(carried, 0))
    assert 0.5 < found.cores_busy < 2
    assert found.nodes == 3


def test_an_estimate_by_hand() -> None:
    found = estimate(Load(100, 200, partitions=999, replicas=1, retention_s=3_600))
    assert found.cores_busy == pytest.approx(0.1 * 2.857 + 0.2 * 0.253)
    assert (found.nodes, found.shards, found.may_fail) == (1, 1, 0)
    assert found.disk_gb == pytest.approx(101 * 3.6 / 0.75)
    assert found.memory_mb == pytest.approx(49.22 + (56.03 - 43.87) + 0.3658)
    assert (found.network_in_mb_s, found.network_out_mb_s) == pytest.approx((101, 202))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("in_mb_s", (1, 10, 100, 1_000, 10_000)),
        ("out_mb_s", (0, 10, 100, 1_000, 10_000)),
        ("record_bytes", (100_000, 10_000, 1_000, 300, 100, 30)),
        ("replicas", (1, 2, 3, 5)),
        ("has_tls", (False, True)),
        ("partitions", (1, 1_000, 100_000)),
        ("connections", (0, 10_000)),
        ("retention_s", (60, 86_400)),
        ("cores", (64, 16, 4, 2)),
    ],
)
def test_a_larger_load_needs_no_smaller_cluster(name: str, values: tuple[Any, ...]) -> None:
    found = [estimate(replace(LOAD, **{name: value})) for value in values]
    for less, more in pairwise(found):
        if name != "record_bytes":  # between 1 and 10 KB a GB read costs a little more again
            assert less.cores_busy <= more.cores_busy
        assert less.nodes <= more.nodes
        assert less.nodes * less.memory_mb <= more.nodes * more.memory_mb + 1
        assert less.nodes * less.disk_gb <= more.nodes * more.disk_gb + 1


@pytest.mark.parametrize("codec", CODECS)
def test_the_nodes_that_are_left_carry_the_load(codec: str) -> None:
    for in_mb_s in (10, 300, 3_000):
        found = estimate(replace(LOAD, in_mb_s=in_mb_s, codec=codec))
        assert found.may_fail == 1
        assert found.cores_busy <= (found.nodes - 1) * found.shards * 0.6 + 1e-9
        assert found.shards < LOAD.cores


def test_compression_makes_disk_and_network_smaller_and_not_the_leaders_work() -> None:
    plain, small = estimate(LOAD), estimate(replace(LOAD, codec="lz4", compressed_to=0.25))
    assert small.disk_gb == plain.disk_gb / 4
    assert small.network_out_mb_s == plain.network_out_mb_s / 4
    assert small.cores_busy < plain.cores_busy
    assert estimate(replace(LOAD, codec="zstd")).cores_busy > plain.cores_busy


def test_what_a_reader_should_know_is_noted() -> None:
    assert "--shards" in " ".join(estimate(replace(LOAD, in_mb_s=2_000, cores=16)).notes)
    assert estimate(LOAD).notes == ()
    given: list[tuple[str, Any]] = [
        ("replicas", 1), ("replicas", 2), ("record_bytes", 50_000), ("codec", "zstd"),
        ("compressed_to", 0.5), ("partitions", 100_000),
    ]  # fmt: skip
    for name, value in given:
        assert len(estimate(replace(LOAD, **{name: value})).notes) == 1, name


def test_what_the_format_adds_to_small_values_is_counted() -> None:
    plain, small = (
        estimate(replace(LOAD, record_bytes=1_000)),
        estimate(replace(LOAD, record_bytes=10)),
    )
    assert small.disk_gb > 1.9 * plain.disk_gb * plain.nodes / small.nodes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("in_mb_s", -1), ("record_bytes", 0), ("replicas", 0), ("partitions", 0),
        ("retention_s", 0), ("compressed_to", 0), ("compressed_to", 1.5), ("codec", "gzip"),
        ("cores", 1), ("connections", -1),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="must be"):
        estimate(replace(LOAD, **{name: value}))
