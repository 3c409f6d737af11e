"""A group's story: somebody writes all the time, members come and go, and in the end it is judged.

    with story(broker, "range", "some-topic", 4, tmp_path) as told:
        told.members.start("java")
        ...
        told.end()         # all is read, everybody leaves, and what happened is held to the log

What is judged: every record was worked on; whoever began to read a partition, began at an offset
that was committed while that partition was its own, so that a record comes twice only where it was
not committed; nothing is committed that nobody has worked on; and nobody but sarama commits with an
old leader epoch, which sets back who comes next.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.client import Admin, NewTopic, Producer, Resource, ResourceType
from tests.conformance.group_log import GroupLog, read_epoch_ends, read_group_log
from tests.conformance.member_kinds import SESSION_MS, Read, Wish, check_owned
from tests.conformance.members import Member, Members
from tests.peers.either_broker import Broker
from tests.peers.eventually import eventually

_BETWEEN_BUNCHES_S: Final = 0.05
_WITHIN_S: Final = 60.0


class Writer:
    """Writes one record into each partition, again and again, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._is_over = threading.Event()
        self._written = 0
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> int:
        """How many records each partition has."""
        self._is_over.set()
        self._thread.join()
        assert not self._failed, self._failed
        return self._written

    def _run(self) -> None:
        try:
            asyncio.run(self._write())
        except Exception as failed:
            self._failed.append(failed)

    async def _write(self) -> None:
        async with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not await asyncio.to_thread(self._is_over.wait, _BETWEEN_BUNCHES_S):
                for partition in range(self._partitions):
                    await producer.send(self._topic, b"%d" % self._written, partition=partition)
                await producer.flush()
                self._written += 1


class Story:
    """See the module."""

    def __init__(self, members: Members, partitions: int) -> None:
        self.members = members
        self.every = frozenset(range(partitions))
        self._writer = Writer(members.wish.bootstrap, members.wish.topic, partitions)

    def reached(self, condition: Callable[[], object]) -> None:
        """Returns when it is true; AssertionError with who owns what if that takes too long."""

        def checked() -> object:
            self.members.check()
            return condition()

        try:
            eventually(checked, within_s=_WITHIN_S)
        except AssertionError as late:
            words = {each.name: each.last_words[-400:] for each in self.members.running}
            raise AssertionError(f"{late}: {self.members.all} {words}") from None

    def shared_by(self, *members: Member) -> None:
        """Returns when these have all partitions among them, each its part, and all of them read.

        One that does not tell what it owns has what the others leave.
        """
        least = len(self.every) // len(members)

        def is_shared() -> bool:
            told = [each.owned for each in members if each.owned is not None]
            owned = [partition for each in told for partition in each]
            free = len(self.every) - len(owned)
            silent = len(members) - len(told)
            return (
                len(set(owned)) == len(owned)
                and all(len(each) >= least for each in told)
                and (free >= silent * least if silent else free == 0)
            )

        self.reached(is_shared)
        self.all_read(members)

    def all_read(self, members: Iterable[Member]) -> None:
        """Returns when each of these has read on from now."""
        before = {each.name: len(each.facts) for each in members}

        def has_read() -> bool:
            return all(
                any(isinstance(fact, Read) for fact in each.facts[before[each.name] :])
                for each in members
            )

        self.reached(has_read)

    def end(self) -> GroupLog:
        """Ends it, and judges; gives the group's log for what else there is to say."""
        count = self._writer.stop()
        try:
            self.reached(lambda: not self._missing(count))
            # What a member that has ended may have dropped: it did, or others are still to read it.
            self.reached(lambda: self._are_passed(self._unread(count)))
        except AssertionError as late:
            log = self._log()
            passed = {
                each: log.who_passed(each.partition, each.offset) for each in self._unread(count)
            }
            raise AssertionError(f"passed over, and by whom: {passed}; {late}") from None
        for each in self.members.running:
            each.leave()
        wish = self.members.wish
        log = self._log()
        log.epoch_ends = asyncio.run(read_epoch_ends(wish.bootstrap, wish.topic))
        self._judge(log, count)
        return log

    def stop(self) -> None:
        self._writer.stop()

    def _log(self) -> GroupLog:
        wish = self.members.wish
        return asyncio.run(read_group_log(wish.bootstrap, wish.group, wish.topic))

    def _unread(self, count: int) -> list[Read]:
        """What nobody has worked on, of so many records in each partition."""
        seen = {each for member in self.members.all for each in member.seen}
        whole = (Read(partition, at) for partition in sorted(self.every) for at in range(count))
        return [each for each in whole if each not in seen]

    def _are_passed(self, records: Iterable[Read]) -> bool:
        """Whether somebody has committed behind all of these."""
        wanted = list(records)
        log = self._log() if wanted else None
        return all(log is None or log.who_passed(each.partition, each.offset) for each in wanted)

    def _droppers(self) -> dict[str, frozenset[Read]]:
        """The members that have ended and are known to drop one record then: that behind what they
        have told last, of one partition of these."""
        return {
            member.name: frozenset(
                Read(partition, last + 1)
                for partition, last in {each.partition: each.offset for each in member.seen}.items()
            )
            for member in self.members.all
            if member.kind.drops_one_at_its_end and not member.is_running
        }

    def _missing(self, count: int) -> list[Read]:
        """What nobody has worked on, but for what a member may have dropped."""
        missing = self._unread(count)
        for may_drop in self._droppers().values():
            dropped = [each for each in missing if each in may_drop]
            missing = [each for each in missing if each not in dropped[:1]]
        return missing

    def _judge(self, log: GroupLog, count: int) -> None:
        seen = Counter(each for member in self.members.all for each in member.seen)
        log.check_dropped(
            [(each.partition, each.offset) for each in self._unread(count)],
            {
                name: [(each.partition, each.offset) for each in told]
                for name, told in self._droppers().items()
            },
        )
        log.check_epochs(
            [each.name for each in self.members.all if each.kind.commits_with_its_first_epoch]
        )
        for member in self.members.all:
            log.check_starts(member.name, ((each.partition, each.offset) for each in member.seen))
            if member.kind.tells_owned and member.kind.tells_in_order:
                check_owned(member.name, member.facts)
        assert log.committed() == dict.fromkeys(self.every, count)
        twice = sum(each - 1 for each in seen.values())
        print(f"{log.group}: {seen.total()} read, {twice} of them again")


@contextmanager
def story(
    broker: Broker,
    strategy: str,
    topic: str,
    partitions: int,
    folder: Path,
    session_ms: int = SESSION_MS,
) -> Iterator[Story]:
    """A topic, a group of the same name, and somebody who writes."""
    wanted = Wish(broker.bootstrap_servers, topic, topic, strategy, session_ms=session_ms)

    async def prepare() -> None:
        async with Admin(bootstrap_servers=wanted.bootstrap) as admin:
            await admin.create_topic(NewTopic(topic, partitions))
            group = Resource(ResourceType.GROUP, topic)
            session = {"consumer.session.timeout.ms": str(wanted.session_ms)}
            await admin.alter_configs(group, set_to=session)

    asyncio.run(prepare())
    with Members(wanted, folder) as members:
        told = Story(members, partitions)
        try:
            yield told
        finally:
            told.stop()
