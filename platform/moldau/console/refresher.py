"""Keeps the lists of a cluster fresh while they are looked at, in slices of bounded work.

One round lists the groups, then the topics, then the lags. The topics are those of the metadata
image where the broker runs in this process, else the cluster is asked. A page waits for the first
slices only, and then shows the last complete picture, or what the first round has found so far.

Invariants: there is one round at a time; it rests after each slice, so that it takes no more than a
fifth of the time of a core or of a broker (in the first round, half of it); without a
look for IDLE_S it stops, and the lists are forgotten. What a page has changed is also in the
pictures of rounds that began less than KEPT_S later: a broker may learn of it after its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from math import nan
from typing import Final

from moldau.client import Admin
from moldau.client.admin.survey import Slice, Survey
from moldau.console.picture import ClusterLists, TopicRow, kinds
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Topic
from moldau.metrics.ring import Block, Ring
from moldau.runtime import Runtime

IDLE_S: Final = 60.0
"""Without a look for so long, the lists are no longer read."""
EVERY_S: Final = 2.0
"""The least time from the end of a round to the next one; a long round rests for as long again."""
FIRST: Final = 500
"""Partitions that a page waits for: a small cluster is shown whole."""
LOOK_MS: Final = 5_000
"""How far the readings of the lag over time are apart."""
KEPT_S: Final = 5.0
"""How long a change is made again to the pictures that are read."""
GROUPS: Final = 20
"""Of a slice of lags."""
_REST: Final = 4.0
_FIRST_REST: Final = 1.0
_REST_MAX_S: Final = 1.0

Change = Callable[[ClusterLists], object]
LocalTopics = Callable[[], Iterator[list[Topic]] | None]


class Refresher:
    """The lists of one cluster."""

    def __init__(
        self,
        runtime: Runtime,
        admin: Callable[[], Awaitable[Admin]],
        local: LocalTopics | None = None,
    ) -> None:
        """`local` returns the topics of a broker in this process; without it, or if it returns
        None, the cluster is asked for them."""
        self._runtime = runtime
        self._local = local
        self._clock = runtime.clock
        self._admin = admin
        self._listed: ClusterLists | None = None
        self._ready: set[str] = set()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._changes: list[tuple[float, Change]] = []
        self._looked_at = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.history = Ring(1)
        """The lags of groups while the lists were read; it stays when they are forgotten."""
        self.problem = ""
        """Why the last round has failed; empty if it has not."""

    # Looking.

    async def topics(self) -> ClusterLists:
        """Return the lists, with the first topics at least. Raise MoldauError if there are none."""
        return await self._look("topics")

    async def groups(self) -> ClusterLists:
        """Return the lists, with the groups. Raise MoldauError if they cannot be listed."""
        listed = await self._look("groups")
        if listed.groups_failure is not None:
            raise without_frames(listed.groups_failure)
        return listed

    def age_s(self, listed: ClusterLists) -> float:
        """How old a complete picture is."""
        return self._clock.monotonic() - listed.at

    async def lags(self, names: Sequence[str]) -> dict[str, int]:
        """Return the lags of these groups; those that no round has read yet are asked for now."""
        listed = await self.groups()
        unknown = {name for name in names if name not in listed.lags}
        missing = [each for each in listed.groups if each.group_id in unknown]
        if missing:
            survey = Survey(await self._admin())
            leaders = listed.leaders() if listed.is_complete else {}
            listed.lags.update(await survey.lags(*kinds(missing), leaders))
        return {name: listed.lags[name] for name in names if name in listed.lags}

    def watch(self) -> None:
        """Begin to read the lists, or go on with it, without waiting for them."""
        self._looked_at = self._clock.monotonic()
        if self._task is None or self._task.done():
            self._task = self._runtime.spawn(self._refresh(), name="read the lists of the console")

    async def _look(self, what: str) -> ClusterLists:
        self.watch()
        if what not in self._ready:
            came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((what, came))
            self._wake.set()
            await came
        assert self._listed is not None
        return self._listed

    # Changes that a page has made.

    def change(self, change: Change) -> None:
        """Make a change to the picture, and to the one that is being read."""
        self._changes.append((self._clock.monotonic(), change))
        if self._listed is not None:
            change(self._listed)

    async def topic_changed(self, name: str) -> None:
        """Read one topic anew: it was created or changed."""
        try:
            found = (await (await self._admin()).describe_topics([name]))[name]
        except KafkaError:
            return  # the next round has it
        if not isinstance(found, KafkaError):
            row = TopicRow.of(found)
            self.change(lambda listed: listed.put(row))

    # Rounds.

    async def _refresh(self) -> None:
        try:
            is_looked_at = True
            while is_looked_at:
                began = self._clock.monotonic()
                try:
                    await self._round()
                    self.problem = ""
                except MoldauError as error:
                    self.problem = str(error)
                    self._failed(error)
                await self._pause(max(EVERY_S, self._clock.monotonic() - began))
                is_looked_at = bool(self._waiting) or self._idle_s() < IDLE_S
        finally:
            self._forget()
            self._failed(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the lists are not read"))

    def _idle_s(self) -> float:
        return self._clock.monotonic() - self._looked_at

    async def _round(self) -> None:
        admin = await self._admin()
        since = self._clock.monotonic() - KEPT_S
        self._changes = [each for each in self._changes if each[0] > since]
        fresh, share = ClusterLists(), _REST
        if self._listed is None:
            self._listed, share = fresh, _FIRST_REST
        else:
            fresh.lags = self._listed.lags
        began = self._clock.monotonic()
        async with aclosing(self._slices(admin, fresh)) as slices:
            async for _ in slices:
                took = self._clock.monotonic() - began
                await asyncio.sleep(min(took * share, _REST_MAX_S))
                began = self._clock.monotonic()

    async def _slices(self, admin: Admin, fresh: ClusterLists) -> AsyncGenerator[None]:
        """Read everything into a picture, and yield after each slice."""
        survey = Survey(admin)
        try:
            fresh.groups = await admin.list_groups()
        except KafkaError as error:
            fresh.groups_failure = without_frames(error)
        self._came("groups")
        yield
        seen = 0
        async for part in self._topic_slices(survey):
            fresh.topics += map(TopicRow.of, part.topics)
            seen += sum(len(each.partitions) for each in part.topics)
            if not part.is_last:
                if seen >= FIRST:
                    self._came("topics")
                yield
        fresh.is_complete, fresh.at = True, self._clock.monotonic()
        for _, change in self._changes:
            change(fresh)
        self._listed = fresh
        self._came("topics")
        yield
        known = {each.group_id for each in fresh.groups}
        for name in fresh.lags.keys() - known:
            del fresh.lags[name]
        leaders = fresh.leaders()
        for begin in range(0, len(fresh.groups), GROUPS):
            chosen = fresh.groups[begin : begin + GROUPS]
            fresh.lags.update(await survey.lags(*kinds(chosen), leaders))
            yield
        now_ms, last_ms = self._clock.wall_ms(), self.history.last_ms
        if last_ms is None or not 0 <= now_ms - last_ms < LOOK_MS:
            lags = {each.group_id: (fresh.lags.get(each.group_id, nan),) for each in fresh.groups}
            self.history.add(now_ms, [Block.of(lags.items())])

    async def _topic_slices(self, survey: Survey) -> AsyncGenerator[Slice]:
        local = None if self._local is None else self._local()
        if local is None:
            async for part in survey.topics():
                yield part
            return
        for topics in local:
            yield Slice(topics, False)
        yield Slice([], True)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _came(self, what: str) -> None:
        self._ready.add(what)
        for kind, each in self._waiting:
            if kind == what and not each.done():
                each.set_result(None)
        self._waiting = [(kind, each) for kind, each in self._waiting if not each.done()]

    def _failed(self, error: MoldauError) -> None:
        """Tell those that wait. A picture that was complete stays."""
        for _, each in self._waiting:
            if not each.done():
                each.set_exception(without_frames(error))
        self._waiting = []
        if self._listed is not None and not self._listed.is_complete:
            self._forget()

    def _forget(self) -> None:
        self._listed = None
        self._ready.clear()

    async def aclose(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
