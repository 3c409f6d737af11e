"""Kafka's admin client moves a replica between our log directories, and sees it arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.broker import MoldauBroker
from tests.peers.apache_kafka import fetch_or_skip

PROGRAM: Final = Path(__file__).parent / "programs" / "MoveReplica.java"

pytestmark = pytest.mark.real


def log_of(directory: Path) -> bytes:
    return (directory / "orders-0" / f"{0:020}.log").read_bytes()


def test_kafkas_admin_moves_a_replica(tmp_path: Path) -> None:
    kafka = fetch_or_skip()
    first, second = tmp_path / "first", tmp_path / "second"
    with MoldauBroker(tmp_path, "--set", f"log.dirs={first},{second}") as broker:
        kafka.run_source(PROGRAM, [f"{broker.bootstrap_servers} orders 2000"])
        home = first if (first / "orders-0").is_dir() else second
        other = second if home is first else first
        before = log_of(home)
        lines = [f"{broker.bootstrap_servers} orders {path}" for path in (other, "/nowhere", home)]
        moved, refused, back = kafka.run_source(PROGRAM, lines)
        assert moved == f"{other} {len(before)}"
        assert refused == "LogDirNotFoundException"
        assert back == f"{home} {len(before)}"
        names = [each.name for path in (home, other) for each in path.iterdir()]
        assert [each for each in names if "-future" in each] == []
