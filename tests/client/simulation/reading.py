"""One consumer of a group, as its user sees it; what it is given is held against the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.client.consumer.membership import AnyMember
from tests.broker.simulation.promises import demand
from tests.client.simulation.promises import Promise
from tests.client.simulation.records import Read, is_mortal
from tests.client.simulation.truth import Group, Truth

Looking = Callable[[], AbstractContextManager[None]]


class Reading(RebalanceListener):
    """From the start of a consumer to its end, or to the death of its process."""

    def __init__(
        self, truth: Truth, group: Group, name: str, reader: Consumer, looking: Looking
    ) -> None:
        """`looking`: what is found wrong within ends the run."""
        self.group = group
        self.name = name
        self.reader = reader
        self._truth = truth
        self._looking = looking
        self._since: dict[TopicPartition, int] = {}
        """The partitions that are assigned, and the moment in the history of their offsets."""
        self._next: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return self.name

    @property
    def member(self) -> AnyMember:
        """Its core."""
        group = self.reader._group
        assert group is not None
        return group.member

    def _heard(self, what: str, partitions: Sequence[TopicPartition], *, were_there: bool) -> None:
        self._truth.counts[what] += len(partitions)
        with self._looking():
            self._check_heard(what, partitions, were_there=were_there)

    def _check_heard(
        self, what: str, partitions: Sequence[TopicPartition], *, were_there: bool
    ) -> None:
        for where in partitions:
            demand(
                (where in self._since) is were_there,
                Promise.HEARD_IN_ORDER,
                member=self,
                heard=what,
                at=where,
            )

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._heard("assigned", partitions, were_there=False)
        for where in partitions:
            self._since[where] = self.group.now(where)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._heard("revoked", partitions, were_there=True)
        self._forget(partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._heard("lost", partitions, were_there=True)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            del self._since[where]
            self._next.pop(where, None)

    def given(self, where: TopicPartition, record: Read) -> str:
        """A record; its name."""
        with self._looking():
            return self._given(where, record)

    def _given(self, where: TopicPartition, record: Read) -> str:
        demand(where in self._since, Promise.ONLY_ASSIGNED, member=self, at=where)
        name, offset = self._truth.records.seen(where, record), record.offset
        if is_mortal(where):
            return name
        if where in self._next:
            demand(
                offset == self._next[where],
                Promise.NO_GAP,
                member=self,
                at=where,
                expected=self._next[where],
                found=offset,
            )
        else:
            self.group.check_first(where, offset, self._since[where])
        self._next[where] = offset + 1
        return name
