"""What the simulated disk promises of bytes and names that no sync has made durable.

The tests of the disk check it, and those of wrong disks see that it does not hold there.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.runtime.machine import Node


def after_power_loss(data: bytes, added: bytes, seed: int) -> bytes:
    """What is left of a durable file to which bytes were appended that nobody synced."""
    node = Node(seed)
    node.durable("/log", data)
    node.write("/log", added)
    node.power_loss()
    contents = node.read("/log")
    assert contents is not None
    return contents


def what_was_not_synced_has_many_fates() -> None:
    fates = Counter[str]()
    for seed in range(400):
        rest = after_power_loss(b"s" * 40, b"u" * 60, seed)[40:]
        fates["nothing"] += not rest.strip(b"\0")
        fates["all"] += rest == b"u" * 60
        fates["hole"] += b"\0u" in rest
        fates["zeros at the end"] += rest.endswith(b"\0")
        fates["shorter"] += 0 < len(rest) < 60
        boundaries = [at for at in range(1, len(rest)) if rest[at - 1] != rest[at]]
        fates["torn"] += any((at + 40) % 16 for at in boundaries)
    assert all(count >= 10 for count in fates.values()), fates
    assert len(fates) == 6


def overwritten_sectors_go_back_each_on_its_own() -> None:
    seen = set()
    for seed in range(100):
        node = Node(seed)
        node.durable("/log", b"o" * 64)
        with node.files.open("/log", "update") as file:
            file.write_at(0, b"n" * 64)
        node.power_loss()
        contents = node.read("/log")
        assert contents is not None
        assert len(contents) == 64
        assert set(contents) <= set(b"on")
        seen.add(contents)
    assert {b"o" * 64, b"n" * 64} < seen
    pairs = {(file[at : at + 16], file[at + 16 : at + 32]) for file in seen for at in (0, 16, 32)}
    assert (b"o" * 16, b"n" * 16) in pairs, "a later sector can arrive without an earlier one"


def names_arrive_in_any_order() -> None:
    """Of two creations the second may be there without the first."""
    found = set()
    for seed in range(100):
        node = Node(seed)
        node.write("/first", b"1", sync=True)
        node.write("/second", b"2", sync=True)
        node.power_loss()
        found.add(tuple(node.files.list("/")))
    assert found == {(), ("first",), ("second",), ("first", "second")}


def a_sync_that_failed_is_never_made_good_by_the_next() -> None:
    lost = 0
    for seed in range(40):
        node = Node(seed)
        node.files.sync_dir("/")
        file = node.files.open("/log", "create")
        node.files.sync_dir("/")
        file.append(b"u" * 64)
        node.disk.fail_next("sync")
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        file.sync()
        assert file.read_at(0, 64) == b"u" * 64
        node.power_loss(survival=1.0)
        lost += node.read("/log") != b"u" * 64
    assert lost > 20
