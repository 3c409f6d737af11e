"""The shell of a member: one task sends the requests of its core and reports their responses. It
keeps a consumer's member alive, and that of a `GroupMember`.

Invariants: one request of the member is pending at a time, on a connection of its own. The task
ends when the member is out of its group after a close, or by an exception of the core or of user
code.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol

from moldau.client.base.coordinator import MEMBERSHIP, Coordinator
from moldau.client.group.member import Ask, MemberSettings, Ready
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.runtime import Runtime
from moldau.runtime.driver import Driver

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
    """The task that keeps a member alive, and the requests that it sends."""

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
        self._clock = runtime.clock
        self._coordinator = coordinator
        self._core = core
        self._step = step
        self._learn = learn
        self._answered = answered
        self._driver = Driver(
            runtime, f"member of {core.terms.group_id}", self._ready, self._act, self._is_over
        )
        self.begin = self._driver.begin
        self.begin_or_raise = self._driver.begin_or_raise
        self.poke = self._driver.poke
        self._asking: Ask | None = None
        self._is_ending = False
        self._unreached_since: float | None = None
        self.trouble: KafkaError | None = None
        """Why the last request got no answer; None if it got one."""

    @property
    def is_alive(self) -> bool:
        """Whether the task is running."""
        return self._driver.is_alive

    def live_on(self) -> None:
        """Start the task again to finish what is left, whatever has ended it: else the coordinator,
        and tasks that commit, would wait for it."""
        if not (self._core.is_out or self._is_ending):
            self._driver.go_on()

    def _ready(self, now: float) -> Ready:
        """Return what the core wants. Check often enough whether the user continues."""
        ready = self._step(now)
        look = now + self._core.terms.poll_interval_s / _LOOKS
        return ready if ready.wake is None or ready.wake <= look else replace(ready, wake=look)

    async def _act(self, ready: Ready) -> bool:
        if ready.ask is not None:
            await self._ask(ready.ask)
        elif ready.topics is not None or ready.ids is not None:
            assert self._learn is not None
            await self._learn(ready)
        else:
            return False
        return True

    def _is_over(self, ready: Ready) -> bool:
        return self._is_ending and self._core.is_out

    async def _ask(self, ask: Ask) -> None:
        self._asking = ask
        answer: Response | KafkaError
        try:
            answer = await self._coordinator.call(
                ask.request, ask.response, lane=MEMBERSHIP, timeout_s=ask.timeout_s
            )
            self._coordinator.note(getattr(answer, "error_code", 0))
            self._unreached_since = self.trouble = None
        except KafkaError as error:
            self._note_unreached(error)
            answer = self.trouble = _maybe_later(without_frames(error))
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
        await self._driver.end(timeout_s)


def _maybe_later(error: KafkaError) -> KafkaError:
    """Make the error of an unreachable broker retriable: another one may coordinate soon."""
    if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.reason, **error.context)
    return error
