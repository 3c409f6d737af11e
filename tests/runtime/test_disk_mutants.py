"""Disks that are wrong on purpose, kinder or crueller than promised: the disk's tests find each.

Kinder is as bad: code that forgets a sync would pass every test of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from moldau.runtime.simulated.disk_cache import CachedFile
from moldau.runtime.simulated.disk_names import Directory, NameChange
from moldau.runtime.simulated.disk_power import PowerLoss
from tests.runtime import disk_promises
from tests.runtime.disk_model import DiskModel

MODEL = settings(
    max_examples=3000,
    stateful_step_count=30,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

Patch = pytest.MonkeyPatch


def a_sync_makes_nothing_durable(patch: Patch) -> None:
    patch.setattr(CachedFile, "sync", lambda file: None)


def a_sync_leaves_the_size(patch: Patch) -> None:
    patch.setattr(CachedFile, "sync", lambda file: file.unsynced.clear())


def a_write_is_a_sync(patch: Patch) -> None:
    write = CachedFile.write

    def write_through(file: CachedFile, position: int, data: bytes) -> None:
        write(file, position, data)
        file.sync()

    patch.setattr(CachedFile, "write", write_through)


def a_cut_is_a_sync(patch: Patch) -> None:
    truncate = CachedFile.truncate

    def truncate_through(file: CachedFile, size: int) -> None:
        truncate(file, size)
        file.sync()

    patch.setattr(CachedFile, "truncate", truncate_through)


def a_cut_forgets_what_was_there(patch: Patch) -> None:
    truncate = CachedFile.truncate

    def truncate_carelessly(file: CachedFile, size: int) -> None:
        before = dict(file.unsynced)
        truncate(file, size)
        file.unsynced.clear()
        file.unsynced.update(before)

    patch.setattr(CachedFile, "truncate", truncate_carelessly)


def a_mapping_syncs_what_it_does_not_map(patch: Patch) -> None:
    patch.setattr(CachedFile, "sync_first", lambda file, size: file.sync())


def a_mapping_syncs_no_size(patch: Patch) -> None:
    def sync_bytes(file: CachedFile, size: int) -> None:
        for sector in file._dirty_in(size):
            del file.unsynced[sector]

    patch.setattr(CachedFile, "sync_first", sync_bytes)


def a_second_sync_makes_a_failed_one_good(patch: Patch) -> None:
    def fail_kindly(file: CachedFile, random: Random, size: int | None = None) -> None:
        file.write_back(random)

    patch.setattr(CachedFile, "fail_sync", fail_kindly)


def names_need_no_sync(patch: Patch) -> None:
    patch.setattr(Directory, "lose_power", lambda directory, loss: directory.sync())


def a_synced_name_can_be_lost(patch: Patch) -> None:
    patch.setattr(Directory, "sync", lambda directory: None)


def a_rename_is_a_removal_and_an_addition(patch: Patch) -> None:
    change = Directory._change

    def change_one_by_one(directory: Directory, changes: tuple[NameChange, ...]) -> None:
        for each in reversed(changes):
            change(directory, (each,))

    patch.setattr(Directory, "_change", change_one_by_one)


def names_of_one_directory_survive_together(patch: Patch) -> None:
    def lose_in_order(directory: Directory, loss: PowerLoss) -> None:
        kept = [change for change in directory.unsynced if loss.keeps()]
        for change in reversed(directory.unsynced[len(kept) :]):
            for name, before, _ in change:
                directory._lead(name, before)
        directory.unsynced = []

    patch.setattr(Directory, "lose_power", lose_in_order)


def sectors_are_never_torn(patch: Patch) -> None:
    patch.setattr(PowerLoss, "sector", lambda loss, old, new: new if loss.keeps() else old)


def sectors_arrive_in_order(patch: Patch) -> None:
    keeps = PowerLoss.keeps
    stopped: set[PowerLoss] = set()

    def keep_until_the_first_is_lost(loss: PowerLoss) -> bool:
        if loss in stopped or not keeps(loss):
            stopped.add(loss)
            return False
        return True

    patch.setattr(PowerLoss, "keeps", keep_until_the_first_is_lost)


def a_kill_loses_the_cache(patch: Patch) -> None:
    end = CachedFile.end_process

    def end_and_forget(file: CachedFile) -> None:
        end(file)
        file.lose_power(PowerLoss(Random(1), 0.0))

    patch.setattr(CachedFile, "end_process", end_and_forget)


def find_with_the_model() -> None:
    run_state_machine_as_test(DiskModel, settings=MODEL)


FINDERS: dict[Callable[[Patch], None], Callable[[], None]] = {
    a_sync_makes_nothing_durable: find_with_the_model,
    a_sync_leaves_the_size: find_with_the_model,
    a_write_is_a_sync: find_with_the_model,
    a_cut_is_a_sync: find_with_the_model,
    a_cut_forgets_what_was_there: find_with_the_model,
    a_mapping_syncs_what_it_does_not_map: find_with_the_model,
    a_mapping_syncs_no_size: find_with_the_model,
    a_second_sync_makes_a_failed_one_good: (
        disk_promises.a_sync_that_failed_is_never_made_good_by_the_next
    ),
    names_need_no_sync: find_with_the_model,
    a_synced_name_can_be_lost: find_with_the_model,
    a_rename_is_a_removal_and_an_addition: find_with_the_model,
    names_of_one_directory_survive_together: disk_promises.names_arrive_in_any_order,
    sectors_are_never_torn: disk_promises.what_was_not_synced_has_many_fates,
    sectors_arrive_in_order: disk_promises.overwritten_sectors_go_back_each_on_its_own,
    a_kill_loses_the_cache: find_with_the_model,
}


@pytest.mark.parametrize("mutant", FINDERS, ids=lambda mutant: mutant.__name__)
def test_a_wrong_disk_is_found(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        mutant(patch)
        with pytest.raises(AssertionError):
            FINDERS[mutant]()
