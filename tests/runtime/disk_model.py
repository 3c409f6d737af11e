"""A model of the promises in `files.py`, under any order of calls.

The model knows nothing of sectors. For each byte it keeps every value that it had since the last
good sync, for each file the sizes it went through, for each name what it led to. What a loss of
power leaves must be one of those (the last, or the first, if all or nothing survived); what a kill
leaves must be the present. Files are written through their names, through handles that outlive
these, and through mappings; a call may be the one in which the process dies.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable
from contextlib import closing
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.runtime.files import File
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.disk_cache import CachedFile
from moldau.runtime.simulated.disk_faults import Operation
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled

DIRECTORIES = ("/", "/d")

PATHS = ("/a", "/b", "/d/a", "/d/b")

NAMES = st.sampled_from(PATHS)

BYTES = st.binary(min_size=1, max_size=30)

POSITIONS = st.integers(0, 60)

SECTOR_BYTES = 8


class FileModel:
    """What one file holds, and what it may hold after a loss of power."""

    def __init__(self) -> None:
        self.live = bytearray()
        self.synced = b""
        self.is_written_back = False
        self.values: list[set[int]] = []
        self.sizes = [0, 0]
        self.tainted: dict[int, set[int]] = {}

    def write(self, position: int, data: bytes) -> None:
        if position > len(self.live):
            self.write(len(self.live), bytes(position - len(self.live)))
        self.live[position : position + len(data)] = data
        for at, value in enumerate(data, position):
            self._may_be(at, value)
        self._pass_through()

    def truncate(self, size: int) -> None:
        if size > len(self.live):
            self.write(len(self.live), bytes(size - len(self.live)))
            return
        for at in range(size, len(self.values)):
            self._may_be(at, 0)
        del self.live[size:]
        self._pass_through()

    def sync(self) -> None:
        self.values = [{value} | self.tainted.get(at, set()) for at, value in enumerate(self.live)]
        self.sizes = [len(self.live)] * 2
        self.synced = bytes(self.live)
        self.is_written_back = False

    def sync_first(self, size: int) -> None:
        """The sectors of the first bytes, and the size."""
        whole = -(-size // SECTOR_BYTES) * SECTOR_BYTES
        current, platter = len(self.live), self.synced
        self.values = [
            {value} | self.tainted.get(at, set()) if at < whole else self.values[at]
            for at, value in enumerate(self.live)
        ]
        self.sizes = [current, current]
        self.synced = (bytes(self.live[:whole]) + platter[whole:current]).ljust(current, b"\0")

    def fail_sync(self) -> None:
        for at, values in enumerate(self.values):
            if len(values) > 1:
                self.tainted.setdefault(at, set()).update(values)

    def explains(self, contents: bytes, survival: float | None) -> bool:
        if survival == 0.0 and not self.tainted and not self.is_written_back:
            return contents == self.synced
        if survival == 1.0 and not self.tainted:
            return contents == self.live
        lowest, highest = self.sizes
        return lowest <= len(contents) <= highest and all(
            value in self.values[at] for at, value in enumerate(contents)
        )

    def become(self, contents: bytes) -> None:
        self.live = bytearray(contents)
        self.tainted.clear()
        self.sync()

    def _may_be(self, at: int, value: int) -> None:
        if at == len(self.values):
            self.values.append({0} | self.tainted.get(at, set()))
        self.values[at].add(value)

    def _pass_through(self) -> None:
        self.sizes = [min(self.sizes[0], len(self.live)), max(self.sizes[1], len(self.live))]


class DiskModel(RuleBasedStateMachine):
    """Calls in any order; three ends of lives among them."""

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed), sector_bytes=SECTOR_BYTES)
        self.models: dict[CachedFile, FileModel] = {}
        self.names: dict[str, CachedFile] = {}
        self.held: list[tuple[File, CachedFile]] = []
        self.may_lead: dict[str, list[CachedFile | None]] = {}
        self.safe: set[CachedFile] = set()
        self.last_survival = (None, 0.0, 1.0)[seed % 3]
        self.live_again()
        self.begin_durable()

    def begin_durable(self) -> None:
        """Something to lose."""
        self.files.make_dirs("/d")
        for path in PATHS:
            self.append(path, b"0123456789" * 4)
        self.sync_everything()

    def live_again(self) -> None:
        self.incarnation = Incarnation("a")
        self.held.clear()
        self.files = self.disk.files(self.incarnation)

    def name(self, path: str, file: CachedFile | None) -> None:
        before = self.names.pop(path, None)
        self.may_lead.setdefault(path, [before]).append(file)
        if file is not None:
            self.names[path] = file

    def handle(self, path: str) -> File:
        """The file, made when it is missing."""
        file = self.files.open(path, "write")
        cached = self.disk.file(path)
        if path not in self.names:
            self.name(path, cached)
            self.models[cached] = FileModel()
        return file

    def model(self, path: str) -> FileModel:
        return self.models[self.names[path]]

    @rule(path=NAMES, data=BYTES)
    def append(self, path: str, data: bytes) -> None:
        with self.handle(path) as file:
            position = file.append_parts([data[:3], data[3:]])
        assert position == len(self.model(path).live)
        self.model(path).write(position, data)

    @rule(path=NAMES, data=BYTES, position=POSITIONS)
    def write_at(self, path: str, data: bytes, position: int) -> None:
        with self.handle(path) as file:
            file.write_at(position, data)
        self.model(path).write(position, data)

    @rule(path=NAMES, data=BYTES, position=POSITIONS)
    def write_mapped(self, path: str, data: bytes, position: int) -> None:
        with self.handle(path) as file:
            if position + len(data) > file.size:
                return
            mapped = file.map(file.size, writable=True)
            mapped.write(position, data)
            assert bytes(mapped.buffer[position : position + len(data)]) == data
            mapped.close()
        self.model(path).write(position, data)

    @rule(path=NAMES, data=BYTES, size=POSITIONS)
    def sync_mapped(self, path: str, data: bytes, size: int) -> None:
        with self.handle(path) as file:
            if not 0 < size <= file.size:
                return
            with closing(file.map(size, writable=True)) as mapped:
                mapped.write(0, data[:size])
                mapped.sync()
        self.model(path).write(0, data[:size])
        self.model(path).sync_first(size)

    @rule(path=NAMES)
    def hold(self, path: str) -> None:
        self.held.append((self.handle(path), self.disk.file(path)))

    @rule(data=BYTES, position=POSITIONS, syncs=st.booleans())
    def write_held(self, data: bytes, position: int, syncs: bool) -> None:
        """To a file that may have another name by now, or none."""
        if self.held:
            file, cached = self.held[position % len(self.held)]
            file.write_at(position, data)
            self.models[cached].write(position, data)
            if syncs:
                file.sync()
                self.models[cached].sync()

    @rule(path=NAMES, data=BYTES, position=POSITIONS, dies=st.booleans())
    def write_half(self, path: str, data: bytes, position: int, dies: bool) -> None:
        """The disk fails or the process dies in the middle: any prefix may be there."""
        with self.handle(path) as file:
            pass
        file = self.files.open(path, "update")
        before = file.size
        self.fails(lambda: file.write_at(position, data), "write", dies=dies)
        model, contents = self.model(path), self.disk.contents(path)
        fitting = [
            count
            for count in range(len(data) + 1)
            if contents[position : position + count] == data[:count]
            and len(contents) == max(before, position + count if count else 0)
        ]
        assert fitting, "neither what was there nor a prefix of what was to be written"
        if written := fitting[-1]:
            model.write(position, data[:written])

    @rule(path=NAMES)
    def sync_half(self, path: str) -> None:
        """The process dies in a sync: some of it may be done."""
        self.handle(path).close()
        file = self.files.open(path, "update")
        self.fails(file.sync, "sync", dies=True)
        self.model(path).is_written_back = True

    def fails(self, act: Callable[[], object], operation: Operation, *, dies: bool) -> None:
        if not dies:
            self.disk.fail_next(operation)
            with pytest.raises(OSError, match="Input/output"):
                act()
            return
        self.disk.begin_work()
        self.disk.die_in(1, self.incarnation)
        with pytest.raises(NodeKilled):
            act()
        self.disk.end_work()
        self.kill()

    @rule(path=NAMES, size=POSITIONS)
    def truncate(self, path: str, size: int) -> None:
        with self.handle(path) as file:
            file.truncate(size)
        self.model(path).truncate(size)

    @rule(path=NAMES)
    def sync(self, path: str) -> None:
        with self.handle(path) as file:
            file.sync()
        self.model(path).sync()

    @rule(path=NAMES)
    def sync_fails(self, path: str) -> None:
        with self.handle(path) as file:
            self.disk.fail_next("sync")
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
        self.model(path).fail_sync()

    @rule(directory=st.sampled_from(DIRECTORIES))
    def sync_dir(self, directory: str) -> None:
        self.files.sync_dir(directory)
        for path in PATHS:
            if posixpath.dirname(path) == directory:
                self.may_lead.pop(path, None)
                if path in self.names:
                    self.safe.add(self.names[path])

    @rule()
    def sync_everything(self) -> None:
        for path in list(self.names):
            self.sync(path)
        for directory in DIRECTORIES:
            self.sync_dir(directory)

    @rule(source=NAMES, destination=NAMES)
    def rename(self, source: str, destination: str) -> None:
        if source not in self.names or source == destination:
            return
        if posixpath.dirname(source) != posixpath.dirname(destination):
            with pytest.raises(OSError, match="cross-device") as caught:
                self.files.rename(source, destination)
            assert caught.value.errno == errno.EXDEV
            return
        self.files.rename(source, destination)
        if destination in self.names:
            self.safe.discard(self.names[destination])
        file = self.names[source]
        self.name(source, None)
        self.name(destination, file)

    @rule(path=NAMES)
    def remove(self, path: str) -> None:
        if path not in self.names:
            return
        self.files.remove(path)
        self.safe.discard(self.names[path])
        self.name(path, None)

    @rule()
    def write_back(self) -> None:
        self.disk.write_back()
        for model in self.models.values():
            model.is_written_back = True

    @rule()
    def kill(self) -> None:
        self.incarnation.poison()
        self.disk.kill()
        self.live_again()

    def teardown(self) -> None:
        self.lose_power(self.last_survival)

    @rule(survival=st.sampled_from([None, 0.0, 1.0]))
    def power_loss(self, survival: float | None) -> None:
        self.lose_power(survival)

    def lose_power(self, survival: float | None) -> None:
        self.incarnation.poison()
        self.disk.power_loss(survival)
        self.live_again()
        found = {path: self.disk.file(path) for path in self.disk.paths()}
        for path in PATHS:
            file = found.get(path)
            fates = self.may_lead.get(path, [self.names.get(path)])
            if survival == 0.0:
                fates = fates[:1]
            elif survival == 1.0:
                fates = fates[-1:]
            assert file in fates, path
        assert len(set(found.values())) == len(found), "one file under two names"
        assert self.safe <= set(found.values()), "a durable file lost its name"
        for path, file in found.items():
            contents = self.disk.contents(path)
            assert self.models[file].explains(contents, survival), (path, contents)
            self.models[file].become(contents)
        self.names = found
        self.safe = set(found.values())
        self.may_lead.clear()

    @rule()
    def lose(self) -> None:
        self.incarnation.poison()
        self.disk.lose()
        self.live_again()
        self.names.clear()
        self.may_lead.clear()
        self.safe.clear()
        self.begin_durable()

    @invariant()
    def every_read_sees_the_present(self) -> None:
        for directory in DIRECTORIES:
            listed = [posixpath.join(directory, name) for name in self.files.list(directory)]
            assert [path for path in listed if path != "/d"] == sorted(
                path for path in self.names if posixpath.dirname(path) == directory
            )
        for path, file in self.names.items():
            assert self.disk.contents(path) == bytes(self.models[file].live)
