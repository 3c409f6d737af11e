"""The shell of a member: one task sends the requests of its core and reports their responses. It
keeps a consumer's member alive, and that of a `GroupMember`.

Invariants: one request of the member is pending at a time, on a connection of its own. The task
ends when the member is out of its group after a close, or by an exception of the core or of user
code.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

from moldau.client.base.coordinator import MEMBERSHIP, Coordinator
from moldau.client.group.member import Ask, MemberSettings, Ready
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout

_LONG_S: Final = 10.0
"""The coordinator's silence is logged after this long."""
_LOOKS: Final = 20
"""In `max.poll.interval.ms`, check at least this often whether the user continues."""
_PARKED: Final = (JoinGroupRequest, SyncGroupRequest)


class MemberCore(Protocol):
    """The core of a member of any kind of group."""

    terms: MemberSettings
    notices: list[MoldauError]

    @property
    def is_out(self) -> bool:
        """Whether it is not in its group, and sends nothing."""
        ...

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """Apply the coordinator's answer, or the failure to get one."""
        ...


class GroupSession:
    """The task that keeps a member alive."""

    def __init__(
        self,
        runtime: Runtime,
        coordinator: Coordinator,
        core: MemberCore,
        step: Callable[[float], Ready],
        learn: Callable[[Ready], Awaitable[None]] | None = None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        """`step` returns what the core wants now. `learn` gives it the metadata of the topics that
        it requires. `answered` is called after each response."""
        self._runtime = runtime
        self._clock = runtime.clock
        self._coordinator = coordinator
        self._core = core
        self._step = step
        self._learn = learn
        self._answered = answered
        self._has_happened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asking: Ask | None = None
        self._is_ending = False
        self._unreached_since: float | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the task is running."""
        return self._task is not None and not self._task.done()

    def begin(self) -> asyncio.Task[None]:
        """Start the task."""
        name = f"member of {self._core.terms.group_id}"
        self._task = self._runtime.spawn(self._live(), name=name, reported=False)
        return self._task

    def begin_or_raise(self) -> None:
        """Start the task if it is not running. If it has ended with an exception, say of an
        assignor, raise that once; the next call starts it again."""
        if self._task is None:
            self.begin()
        elif self._task.done():
            ended, self._task = self._task, None
            ended.result()

    def live_on(self) -> None:
        """Start the task again to finish what is left, whatever has ended it: else the coordinator,
        and tasks that commit, would wait for it."""
        if self._task is not None and self._task.done():
            if not self._task.cancelled():
                self._task.exception()
            self._task = None
        if self._task is None and not (self._core.is_out or self._is_ending):
            self.begin()

    def poke(self) -> None:
        """Wake the task: something has happened that the member may act upon."""
        self._has_happened.set()

    async def _live(self) -> None:
        while not (self._is_ending and self._core.is_out):
            self._has_happened.clear()
            ready = self._step(self._clock.monotonic())
            if ready.ask is not None:
                await self._ask(ready.ask)
            elif ready.topics is not None or ready.ids is not None:
                assert self._learn is not None
                await self._learn(ready)
            else:
                await self._wait(ready.wake)

    async def _wait(self, wake: float | None) -> None:
        delay = None
        if wake is not None:
            look_s = self._core.terms.poll_interval_s / _LOOKS
            delay = min(look_s, max(0.0, wake - self._clock.monotonic()))
        with suppress(TimeoutError):
            async with timeout(delay):
                await self._has_happened.wait()

    async def _ask(self, ask: Ask) -> None:
        self._asking = ask
        answer: Response | KafkaError
        try:
            answer = await self._coordinator.call(
                ask.request, ask.response, lane=MEMBERSHIP, timeout_s=ask.timeout_s
            )
            self._coordinator.note(getattr(answer, "error_code", 0))
            self._unreached_since = None
        except KafkaError as error:
            self._note_unreached(error)
            answer = _maybe_later(error)
        finally:
            self._asking = None
        self._core.on_answer(answer, self._clock.monotonic())
        self._answered()

    def _note_unreached(self, error: KafkaError) -> None:
        """Log a lasting silence of the coordinator once; again only after a response."""
        now = self._clock.monotonic()
        if self._unreached_since is None:
            self._unreached_since = now
        elif now - self._unreached_since >= _LONG_S:
            self._unreached_since = math.inf
            reason = f"the group's coordinator gave no answer for {_LONG_S:g} s; it is tried on"
            facts = {**error.context, "group": self._core.terms.group_id}
            self._core.notices.append(MoldauError(f"{reason}: {error.reason}", **facts))

    async def end(self, timeout_s: float) -> None:
        """Wait until the member is out of its group and its coordinator knows; after `timeout_s`
        the coordinator finds out by itself. A request that is parked until all members have joined
        is not waited for."""
        self._is_ending = True
        if self._asking is not None and isinstance(self._asking.request, _PARKED):
            self._coordinator.hang_up(MEMBERSHIP)
        self.poke()
        if self._task is None:
            return
        try:
            await asyncio.wait([self._task], timeout=timeout_s)
        finally:
            self._task.cancel()
            await asyncio.wait([self._task])


def _maybe_later(error: KafkaError) -> KafkaError:
    """Make the error of an unreachable broker retriable: another one may coordinate soon."""
    if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.reason, **error.context)
    return error
