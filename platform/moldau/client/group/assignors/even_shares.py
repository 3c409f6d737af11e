"""Sticky shares if all members want the same topics: computed by counting, without a search. No IO.

Of P partitions and M members each gets P // M (`least`), and P % M of them one more (`most`). 1.
Each member keeps what it has, up to `most` while more members may have that many, else up to
`least`. 2. The rest goes to members that have less than `least`, in turn, near ones first if racks
matter. 3. Members that may have one more get one.

`changing_hands` has the partitions that another member had, or that were disputed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client.group.assignors.assignor import Assignment, Topics
from moldau.client.group.assignors.order import text_order
from moldau.client.group.assignors.racks import RackView
from moldau.link.metadata import TopicPartition


class EvenShares:
    """A computation of one assignment; members are in the order in which they are served."""

    def __init__(
        self,
        topics: Topics,
        racks: RackView,
        owned: Mapping[str, Sequence[TopicPartition]],
        disputed: set[TopicPartition],
    ) -> None:
        self.changing_hands: dict[TopicPartition, str] = {}
        self._racks = racks
        self._owned = owned
        self._disputed = disputed
        self._all = [
            TopicPartition(topic, index)
            for topic, partitions in topics.items()
            for index in range(len(partitions))
        ]
        self._least, over = divmod(len(self._all), len(owned))
        self._most = self._least + (over > 0)
        self._may_have_most = over
        self._short: list[str] = []
        self._at_least: list[str] = []
        self._given_up: dict[TopicPartition, str] = {}
        self._shares: Assignment = {member: [] for member in owned}

    def assign(self) -> Assignment:
        """Return the shares."""
        for member, owned in self._owned.items():
            self._keep(member, owned)
        kept = {where for share in self._shares.values() for where in share}
        left = [where for where in self._all if where not in kept]
        self._short.sort(key=text_order)
        self._at_least.sort(key=text_order)
        left = self._racks.scarce_first(left)
        if self._racks.members:
            left = self._deal_near(left)
        self._deal(left)
        return self._shares

    def _keep(self, member: str, owned: Sequence[TopicPartition]) -> None:
        kept = []
        for where in owned:
            if self._racks.is_far(member, where):
                self._given_up[where] = member
            elif where not in self._disputed:
                kept.append(where)
        kept.sort(key=lambda where: (where.partition, where.topic))
        if len(kept) < self._least:
            self._short.append(member)
        elif len(kept) >= self._most and self._may_have_most:
            self._one_has_most()
            self._give_up(member, kept, self._most)
        else:
            self._give_up(member, kept, self._least)
            if self._may_have_most:
                self._at_least.append(member)
        self._shares[member] += kept

    def _give_up(self, member: str, kept: list[TopicPartition], count: int) -> None:
        self._given_up |= dict.fromkeys(kept[count:], member)
        del kept[count:]

    def _one_has_most(self) -> None:
        self._may_have_most -= 1
        if not self._may_have_most:
            self._at_least.clear()

    def _deal_near(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Assign the partitions that have a near taker, and return the rest."""
        left = []
        turn = 0
        for where in partitions:
            taker = None
            index = self._racks.next_near(where, self._short, turn)
            if index >= 0:
                taker = self._short[index]
                turn = self._next_turn(index, taker)
            else:
                index = self._racks.next_near(where, self._at_least, 0)
                if index >= 0:
                    taker = self._at_least[index]
                    if len(self._shares[taker]) + 1 == self._most:
                        del self._at_least[index]
                        self._one_has_most()
            if taker is None:
                left.append(where)
            else:
                self._take(where, taker)
        return left

    def _next_turn(self, index: int, taker: str) -> int:
        count = len(self._shares[taker]) + 1
        if count >= self._least:
            self._short.remove(taker)
            if count < self._most and self._may_have_most:
                self._at_least.append(taker)
        else:
            index += 1
        return index % len(self._short) if self._short else 0

    def _deal(self, partitions: list[TopicPartition]) -> None:
        turn = 0
        for where in partitions:
            if not self._short:
                assert self._at_least, "partitions are left and no member may have one more"
                self._take(where, self._at_least.pop(0))
                continue
            turn %= len(self._short)
            taker = self._short[turn]
            if self._take(where, taker) == self._least:
                del self._short[turn]
                self._at_least.append(taker)
                if turn == len(self._short):
                    turn = 0
            else:
                turn += 1

    def _take(self, where: TopicPartition, member: str) -> int:
        share = self._shares[member]
        share.append(where)
        if where in self._disputed or self._given_up.get(where, member) != member:
            self.changing_hands[where] = member
        return len(share)
