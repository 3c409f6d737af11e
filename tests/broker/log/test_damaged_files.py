"""Any damage to any file of a log: it opens, and what it then holds is the undamaged beginning."""

from __future__ import annotations

from random import Random

import pytest

from moldau.broker.log.segment import Segment
from moldau.errors import CorruptRecord
from moldau.errors.codes import KafkaError
from tests.broker.log.machine import DIRECTORY, NOW, Machine, batch, contents
from tests.broker.log.story import Story


def damage(random: Random, data: bytes) -> bytes:
    """Bits flipped, a piece lost, doubled or zeroed, or an end cut or added."""
    changed = bytearray(data)
    start = random.randrange(len(changed) + 1)
    size = random.randrange(1, 90)
    kind = random.randrange(6)
    if kind == 0 and changed:
        changed[start % len(changed)] ^= 1 << random.randrange(8)
    elif kind == 1:
        del changed[start : start + size]
    elif kind == 2:
        changed[start:start] = changed[start : start + size]
    elif kind == 3:
        changed[start : start + size] = bytes(len(changed[start : start + size]))
    elif kind == 4:
        del changed[start:]
    else:
        changed += random.randbytes(size)
    return bytes(changed)


def checked(found: list[tuple[int, bytes]]) -> list[bytes]:
    """What a batch's checksum covers: offset and epoch, which a leader stamps, are not in it."""
    return [data[21:] for _, data in found]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_a_damaged_file_costs_the_end_of_the_log_at_most(first: int) -> None:
    for seed in range(first, first + 50):
        random = Random(seed)
        machine = Machine(seed)
        story = Story(seed)
        story.machine = machine
        story.log = machine.open()
        for _ in range(25):
            story.append()
            if random.random() < 0.1:
                story.end_transaction()
        expected = contents(story.log)
        if random.random() < 0.5:
            story.log.close()
        machine.kill()
        paths = [path for path in machine.disk.paths() if path.startswith(DIRECTORY)]
        hurt = random.choice(paths)
        machine.disk.put(hurt, damage(random, machine.disk.contents(hurt)))
        log = machine.open()
        found = contents(log)
        assert checked(found) == checked(expected[: len(found)]), (seed, hurt)
        if not hurt.endswith(".log"):
            assert found == expected, (seed, hurt)
        story.log = log
        story.check_producers()
        story.check_epochs(found)
        log.append_as_leader(story.next_batch(), story.epoch, NOW)


def test_a_log_that_is_trusted_and_damaged_is_looked_at_when_its_indexes_are_made_anew() -> None:
    """1. a clean shutdown, 2. a batch lies where another one was, and an index is gone, 3. the walk
    that makes the index anew finds that, as an error of the data and not of ours."""
    machine = Machine()
    log = machine.open()
    for number in range(6):
        log.append_as_leader(batch(timestamp=NOW + number), 1, NOW)
    expected = contents(log)
    log.close()
    machine.kill()
    path = f"{DIRECTORY}/{0:020d}.log"
    data = machine.disk.contents(path)
    size = len(expected[0][1])
    machine.disk.put(path, data[:-size] + data[:size])
    machine.files.remove(f"{DIRECTORY}/{0:020d}.index")

    assert contents(machine.open(is_clean=True)) == expected[:-1]


def test_damage_in_the_middle_is_told_at_each_read_and_nothing_is_skipped() -> None:
    """1. a clean shutdown, 2. in a segment that is not the last one a batch lies where another one
    was, and its index is gone, 3. each read behind the damage hears of it."""
    machine = Machine()
    log = machine.open()
    for number in range(40):
        log.append_as_leader(batch(timestamp=NOW + number), 1, NOW)
    sealed = log.segments[1]
    expected = [(offset, data) for offset, data in contents(log) if offset >= sealed.base_offset]
    log.close()
    machine.kill()
    size = len(expected[0][1])
    path = f"{DIRECTORY}/{sealed.base_offset:020d}.log"
    data = machine.disk.contents(path)
    machine.disk.put(path, data[:size] + data[:size] + data[2 * size :])
    machine.files.remove(f"{DIRECTORY}/{sealed.base_offset:020d}.index")

    again = machine.open(is_clean=True)
    third = expected[2][0]
    assert third < again.segments[2].base_offset
    for _ in range(3):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
            again.read(third, 10_000)
    assert machine.files.exists(f"{DIRECTORY}/{sealed.base_offset:020d}.index")  # up to the damage


def test_indexes_that_end_at_damage_are_not_made_anew_by_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also for who looks for what lies before: where cleaning has taken away the end of a segment,
    the next one is asked for its first batch."""
    machine = Machine()
    log = machine.open()
    for number in range(40):
        log.append_as_leader(batch(timestamp=NOW + number), 1, NOW)
    path = log.segments[1].log_path
    log.close()
    machine.kill()
    machine.disk.put(path, bytes(len(machine.disk.contents(path))))
    made_anew: list[Segment] = []
    rebuild = Segment.rebuild_indexes

    def counted(self: Segment) -> None:
        made_anew.append(self)
        rebuild(self)

    monkeypatch.setattr(Segment, "rebuild_indexes", counted)
    damaged = machine.open(is_clean=True).segments[1]
    for _ in range(3):
        with pytest.raises(CorruptRecord):
            damaged.find(damaged.base_offset - 1)
    assert made_anew == [damaged]
