"""Keeps the shards of this host from being hot: feeds `HotShards`, and carries its moves out.

It runs in the process that started the shards, and acts through them (`ShardAnswers`). All that it
knows ends with that process; a move that goes on then is one of Kafka's reassignments, and ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page
from moldau.broker.main.hot_shards import (
    HotShards,
    LedPartition,
    Limits,
    Move,
    Progress,
    Ready,
    ShardLoad,
)
from moldau.broker.main.shard_answers import LOAD, STEP
from moldau.broker.settings import shards as rows
from moldau.runtime.backoff import Backoff
from moldau.runtime.driver import Driver, SupervisedDriver
from moldau.runtime.questions import NoAnswer
from moldau.runtime.restarts import RestartPolicy

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.logging import Logger
    from moldau.runtime import Runtime
    from moldau.runtime.questions import Questions

ANSWER_SECONDS: Final = 10.0
_POLICY: Final = RestartPolicy(Backoff(1_000, 60_000))


class ShardBalance:
    """The balance of the shards of this host, from their start to their end."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        shards: Callable[[], Mapping[int, Questions | None]],
        log: Logger,
    ) -> None:
        """`shards` returns those that can be asked; None for one that does not run."""
        limits = Limits(
            settings[rows.moldau_shards_balance_window_ms] / 1000,
            settings[rows.moldau_shards_balance_hot_percent] / 100,
            settings[rows.moldau_shards_balance_copy_bytes_max],
        )
        self.core = HotShards(limits, runtime.clock.monotonic())
        self._clock = runtime.clock
        self._shards = shards
        self._log = log
        driver = Driver(runtime, "balance of the shards", self.core.ready, self._act, _is_over)
        self._driver = SupervisedDriver(driver, runtime, _POLICY, self._report)

    def begin(self) -> None:
        """Start to watch: all shards are up."""
        self._driver.begin()

    async def aclose(self) -> None:
        """Decide no more."""
        await self._driver.aclose()

    def page(self) -> str:
        """Return the series of the balance."""
        page = Page()
        for number, share in self.core.shares.items():
            page.add(table.shard_core_share, round(share, 4), str(number))
        for kind, count in self.core.moves.items():
            page.add(table.shard_moves, count, kind)
        return "".join(page.pieces())

    async def _act(self, ready: Ready) -> bool:
        for each in ready.notices:
            log = self._log.warn if each.is_warning else self._log.info
            log(each.text, **each.facts)
        if ready.step is not None:
            await self._step(ready.step, is_first=ready.is_first_step)
        elif ready.is_look_due:
            await self._look()
        return bool(ready.notices or ready.step or ready.is_look_due)

    async def _step(self, move: Move, *, is_first: bool) -> None:
        question = {
            "place": move.place,
            "before": move.before,
            "goal": move.goal,
            "bytes_per_second": move.bytes_per_second,
            "is_first": is_first,
        }
        answer = await self._ask(move.target, f"{STEP} {json.dumps(question)}")
        progress, refusal = (None, "") if answer is None else answer
        found = None if progress is None else Progress[progress]
        self.core.on_step(found, refusal, self._clock.monotonic())

    async def _look(self) -> None:
        loads = {}
        for number in self._shards():
            answer = await self._ask(number, LOAD)
            if answer is not None:
                loads[number] = _load_of(answer)
        self.core.on_load(loads, self._clock.monotonic())

    async def _ask(self, number: int, question: str) -> Any:
        """Return the answer of a shard; None if it has none, because it starts or has ended."""
        questions = self._shards().get(number)
        try:
            answer = b"null" if questions is None else await questions.ask(question, ANSWER_SECONDS)
        except NoAnswer:
            return None
        return json.loads(answer)

    def _report(self, error: Exception) -> None:
        self._log.failure("the shards are not balanced for a moment", error)


def _load_of(answer: list[Any]) -> ShardLoad:
    load = ShardLoad(*answer)
    led = (LedPartition(*each) for each in load.led)
    return load._replace(
        led=tuple(each._replace(replicas=tuple(each.replicas), isr=tuple(each.isr)) for each in led)
    )


def _is_over(ready: Ready) -> bool:
    return False
