"""Partitions without a leader wait here, and are read as soon as they have one.

Their ends cannot be requested, so it is not known where to begin. A reading leaves them here, and
goes on with each of them when it has a leader. The other partitions are read meanwhile.

Invariant: a partition waits here until the reading has gone on with it. If a broker fails
meanwhile, the reading tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.client import Consumer, TopicPartition
    from moldau.runtime import Clock

_ELECTION_S: Final = 2.0
_EVERY_S: Final = 1.0
_LOOK_S: Final = 5.0


class Leaderless:
    """The waiting partitions of one reading."""

    def __init__(
        self,
        client: Consumer,
        clock: Clock,
        notes: list[str],
        on_led: Callable[[list[TopicPartition]], Coroutine[Any, Any, None]],
    ) -> None:
        """`on_led` goes on with partitions that have a leader; `notes` are for the user."""
        self.waiting: set[TopicPartition] = set()
        self._client = client
        self._clock = clock
        self._notes = notes
        self._on_led = on_led
        self._told: set[TopicPartition] = set()
        self._next_look = 0.0

    async def begin(self, chosen: Collection[TopicPartition]) -> None:
        """Go on with the partitions that have a leader; the others wait. A partition that is
        electing a leader, as in a topic that was just created, gets two seconds for that. If none
        has a leader, go on with all, so that the client waits for them as long as it waits for
        anything.

        A broker that has just failed stays the leader until the cluster notices, some seconds
        later: while its answer is awaited, the metadata are requested again.
        """
        from moldau.cli.shell import unless, within
        from moldau.client.base.offsets import LATEST

        led = list(chosen)
        if not await within(_ELECTION_S, self._client.offsets(dict.fromkeys(chosen, LATEST))):
            led = await self._led(chosen) or led
        self._leave(set(chosen) - set(led))
        while not await unless(self._on_led(led), _EVERY_S, partial(self._has_lost_some, led)):
            led = await self._led(led) or led
            self._leave(set(chosen) - set(led))

    async def _has_lost_some(self, led: list[TopicPartition]) -> bool:
        """Whether some of them lost their leader and others did not; False if that is not known."""
        from moldau.cli.shell import within_or_later

        found = await within_or_later(_LOOK_S, self._led(led))
        return found is not None and 0 < len(found) < len(led)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions, and go on with those that have a leader as soon as possible."""
        self.waiting.update(partitions)
        await self._look()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop waiting for these partitions."""
        self.waiting.difference_update(partitions)
        self._told &= self.waiting

    async def look(self) -> None:
        """Go on with the partitions that have a leader now. Do nothing if the last look was less
        than a second ago, and give up soon: other partitions must be read."""
        if self.waiting and self._clock.monotonic() >= self._next_look:
            await self._look()

    async def _look(self) -> None:
        from moldau.cli.shell import within_or_later

        await within_or_later(_LOOK_S, self._go_on())
        self._next_look = self._clock.monotonic() + _EVERY_S

    async def _go_on(self) -> None:
        led = await self._led(self.waiting)
        self._leave(self.waiting.difference(led))
        if led:
            await self._on_led(led)
            self._notes += [f"{each} has a leader now" for each in led if each in self._told]
            self.remove(led)

    def _leave(self, leaderless: set[TopicPartition]) -> None:
        """Let these partitions wait, and note each of them once."""
        self.waiting |= leaderless
        self._notes += [
            f"{each} has no leader: it is left out until it has one"
            for each in sorted(leaderless - self._told)
        ]
        self._told |= leaderless

    async def _led(self, chosen: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return those of the partitions that have a leader, sorted."""
        led = {
            (topic.name, each.index)
            for topic in await self._client.list_topics(internal=True)
            for each in topic.partitions
            if each.leader >= 0
        }
        return sorted(where for where in chosen if where in led)
