"""Locks of checkpoints at addresses of fsspec."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")

from moldau.connectors.file.storage import storage_of
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.lock import LEASE_S, Lease
from moldau.errors import ConfigError


class Times:
    """Time that goes by when somebody waits, and what happens then."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.meanwhile: Callable[[], object] = int

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.meanwhile()


@pytest.fixture
def leases(tmp_path: Path) -> tuple[Times, Callable[[], Lease]]:
    address, times, owners = f"local://{tmp_path}/points/lake/lock", Times(), itertools.count()
    return times, lambda: Lease(storage_of(address), address, str(next(owners)), times.wait)


def test_a_lock_whose_owner_lives_is_not_taken(leases: tuple[Times, Callable[[], Lease]]) -> None:
    times, lease = leases
    first = lease()
    first.acquire()

    times.meanwhile = first.renew
    with pytest.raises(ConfigError, match="another query works on this checkpoint"):
        lease().acquire()
    first.renew()


def test_a_lock_whose_owner_died_is_taken_over(leases: tuple[Times, Callable[[], Lease]]) -> None:
    times, lease = leases
    first, second = lease(), lease()
    first.acquire()
    second.acquire()

    assert times.passed >= LEASE_S
    with pytest.raises(ConfigError, match="has taken this checkpoint over"):
        first.renew()
    first.release()
    second.renew()


def test_a_lock_that_is_released_is_free_at_once(leases: tuple[Times, Callable[[], Lease]]) -> None:
    times, lease = leases
    first = lease()
    first.acquire()
    times.meanwhile = first.release
    before = times.passed
    lease().acquire()

    assert times.passed - before < LEASE_S / 2


def test_of_two_that_find_it_free_one_has_it(leases: tuple[Times, Callable[[], Lease]]) -> None:
    times, lease = leases
    first, second = lease(), lease()

    def write_too() -> None:
        times.meanwhile = int
        second._write()

    times.meanwhile = write_too
    with pytest.raises(ConfigError, match="another query"):
        first.acquire()
    second.renew()


def test_a_lock_that_was_half_written_is_one(
    leases: tuple[Times, Callable[[], Lease]], tmp_path: Path
) -> None:
    times, lease = leases
    (tmp_path / "points" / "lake").mkdir(parents=True)
    (tmp_path / "points" / "lake" / "lock").write_text('{"own')
    lease().acquire()

    assert times.passed >= LEASE_S


@pytest.mark.real
def test_two_may_not_work_on_one_checkpoint_at_a_uri(tmp_path: Path) -> None:
    location = f"local://{tmp_path}/points"
    first, second = CheckpointFolder(location, "lake"), CheckpointFolder(location, "lake")
    first.acquire_for_query()
    with pytest.raises(ConfigError, match="another query works on this checkpoint"):
        second.acquire_for_query()
    first.lock.check()

    first.lock.release()
    second.acquire_for_query()
    (tmp_path / "points" / "lake" / "lock").write_text('{"owner": "another"}')
    second.lock._renew_lease()
    with pytest.raises(ConfigError, match="has taken this checkpoint over"):
        second.lock.check()
    second.lock.release()
    assert (tmp_path / "points" / "lake" / "lock").exists()


def test_a_checkpoint_that_nothing_here_can_open_is_not_locked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = CheckpointFolder("unknown://bucket/points", "lake")
    folder.acquire_for_query()
    folder.lock.check()
    folder.lock.release()

    assert "a second query on it would not be noticed" in caplog.text


def test_a_library_that_may_not_write_there_stops_no_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoLogin(Exception):
        """As libraries behind fsspec raise it: no OSError."""

    def refuse(self: Lease) -> None:
        raise NoLogin("unable to locate credentials")

    monkeypatch.setattr(Lease, "_write", refuse)
    folder = CheckpointFolder(f"local://{tmp_path}/points", "lake")
    folder.acquire_for_query()
    folder.lock.check()
    folder.lock.release()

    assert "not be noticed: unable to locate credentials" in caplog.text
