"""The invariants of the replicated log, looked at after every step of every node.

`Checker` is told three things: what a node found on its disk, what it is about to do, and what it
has done. From these it keeps the truth that no node knows: what was kept for good, and what each
node has promised. Its cost is in proportion to what changed, not to what exists.
"""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections.abc import Callable, Sequence

from examples.replicated_log.messages import NO_OFFSET, NOBODY, Record
from examples.replicated_log.replica import Ready, Replica, Role, Vote
from examples.replicated_log.server import Server
from examples.replicated_log.store import Store

DISK_ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS)
"""By these a node may end: its disk cannot be trusted any more."""


class Violation(AssertionError):
    """The log broke one of its promises."""


def demand(is_so: bool, promise: str, **facts: object) -> None:
    if not is_so:
        told = ", ".join(f"{name}={fact!r}" for name, fact in facts.items())
        raise Violation(f"{promise} ({told})")


class Checker:
    """What all nodes together must hold to."""

    def __init__(self, size: int) -> None:
        self.kept: list[Record] = []
        self.acknowledged: dict[bytes, int] = {}
        self.on_write: Callable[[int, Ready], None] = lambda number, ready: None
        """For faults that come at bad moments: the node is about to write this to its disk."""
        self.steps = 0
        self.cuts = 0
        self._majority = size // 2 + 1
        self._kept_in: list[int] = []
        self._leaders: dict[int, int] = {}
        self._seen: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._promised: dict[int, list[Record]] = {}
        self._votes: dict[int, Vote] = {}
        self._under_way: dict[int, Ready] = {}
        self._high_watermarks: dict[int, int] = {}

    @property
    def epochs(self) -> int:
        """How many epochs had a leader."""
        return len(self._leaders)

    def on_start(self, number: int, vote: Vote, records: Sequence[Record]) -> None:
        """A node has started with this on its disk."""
        promised = self._promised.get(number, [])
        interrupted = self._under_way.pop(number, None)
        if interrupted is not None and interrupted.truncate_to is not None:
            promised = promised[: interrupted.truncate_to]
        demand(
            list(records[: len(promised)]) == promised,
            "what a node has confirmed is on its disk",
            node=number,
            confirmed=len(promised),
            found=len(records),
        )
        given = self._votes.get(number, Vote())
        demand(
            vote.epoch > given.epoch
            or (vote.epoch == given.epoch and given.candidate in (NOBODY, vote.candidate)),
            "a vote once given is on the disk",
            node=number,
            given=given,
            found=vote,
        )
        self._promised[number] = list(records)
        self._votes[number] = vote
        self._high_watermarks[number] = 0

    def on_step(self, replica: Replica, ready: Ready) -> None:
        """A node is about to carry out `ready`."""
        self.steps += 1
        number = replica.number
        self._under_way[number] = ready
        self._check_log(replica, ready)
        if replica.role is Role.LEADER:
            self._check_leader(replica)
        self._check_high_watermark(replica)
        for _, answer in ready.answers:
            demand(
                answer.offset == NO_OFFSET or answer.offset < len(self.kept),
                "only what is kept is confirmed to clients",
                node=number,
                offset=answer.offset,
            )

    def on_done(self, number: int, ready: Ready) -> None:
        """A node has carried out `ready`: it is bound by it."""
        del self._under_way[number]
        if ready.vote is not None:
            self._votes[number] = ready.vote
        if ready.truncate_to is not None:
            del self._promised[number][ready.truncate_to :]
        self._promised[number] += ready.records

    def _check_log(self, replica: Replica, ready: Ready) -> None:
        log = replica.log
        if ready.truncate_to is not None:
            self.cuts += 1
            lost = self._promised[replica.number][ready.truncate_to :]
            truth = self.kept[ready.truncate_to :]
            demand(
                all(mine != kept for mine, kept in zip(lost, truth, strict=False)),
                "no node forgets what is kept",
                node=replica.number,
                cut_at=ready.truncate_to,
                kept=len(self.kept),
            )
        for offset, record in enumerate(ready.records, log.end - len(ready.records)):
            known = (record.value, log.epoch_before(offset))
            demand(
                self._seen.setdefault((offset, record.epoch), known) == known,
                "an offset and an epoch name one record and all before it",
                node=replica.number,
                offset=offset,
                epoch=record.epoch,
            )

    def _check_leader(self, replica: Replica) -> None:
        epoch = replica.epoch
        known = self._leaders.get(epoch)
        if known is None:
            self._leaders[epoch] = replica.number
            # A leader can win late, when a later epoch has already kept more.
            kept = bisect_left(self._kept_in, epoch)
            demand(
                replica.log.records[:kept] == self.kept[:kept],
                "a leader has all that was kept in earlier epochs",
                node=replica.number,
                epoch=epoch,
            )
        else:
            demand(
                known == replica.number,
                "an epoch has one leader",
                epoch=epoch,
                leaders=(known, replica.number),
            )

    def _check_high_watermark(self, replica: Replica) -> None:
        number, end = replica.number, replica.high_watermark
        before = self._high_watermarks[number]
        if end == before:
            return
        demand(before <= end <= replica.log.end, "a high watermark only grows", node=number, at=end)
        for offset in range(before, end):
            record = replica.log.records[offset]
            if offset == len(self.kept):
                holders = [
                    holder
                    for holder, log in self._promised.items()
                    if offset < len(log) and log[offset] == record
                ]
                demand(
                    len(holders) >= self._majority,
                    "what is kept is on the disks of a majority",
                    offset=offset,
                    holders=holders,
                )
                self.kept.append(record)
                self._kept_in.append(replica.epoch)
            demand(
                self.kept[offset] == record,
                "what is kept never changes",
                node=number,
                offset=offset,
            )
        self._high_watermarks[number] = end

    def on_acknowledged(self, value: bytes, offset: int) -> None:
        """A client was told that its value is kept at `offset`."""
        demand(
            offset < len(self.kept) and self.kept[offset].value == value,
            "what a client was told is kept is kept",
            value=value,
            offset=offset,
        )
        self.acknowledged[value] = offset


def watched(checker: Checker, server_class: type[Server], records_per_request: int) -> type[Server]:
    """The same server, but each of its steps is looked at."""

    class SlowSender(server_class.replica_class):  # type: ignore[misc, name-defined]
        pass

    SlowSender.records_per_request = records_per_request

    class WatchedStore(server_class.store_class):  # type: ignore[misc, name-defined]
        number = NOBODY

        def open(self) -> tuple[Vote, list[Record]]:
            vote, records = super().open()
            checker.on_start(self.number, vote, records)
            return vote, records

    class WatchedServer(server_class):  # type: ignore[misc, valid-type]
        replica_class: type[Replica] = SlowSender
        store_class: type[Store] = WatchedStore

        async def run(self) -> None:
            self._store.number = self.number
            try:
                await super().run()
            except OSError as error:
                if error.errno not in DISK_ERRORS:
                    raise

        def take_ready(self) -> Ready:
            ready: Ready = super().take_ready()
            assert self.replica is not None
            checker.on_step(self.replica, ready)
            if ready.needs_disk:
                checker.on_write(self.number, ready)
            return ready

        def publish(self, ready: Ready) -> None:
            super().publish(ready)
            checker.on_done(self.number, ready)

    return WatchedServer
