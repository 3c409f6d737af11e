"""Workers of a streams group are stopped in order while records come, and hand their tasks over.

A stop ends within a bound. The group never gives a task to a member before another one has given it
up. A worker with tasks says that it hands them over, unless it is a static member or all stop.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self

from moldau.client import KafkaError
from moldau.client.group.descriptions import GroupDescription, MemberTasks
from moldau.client.sync import Admin
from moldau.streams.worker.worker import HAND_OVER_S
from tests.streams.pairs.model import Case
from tests.streams.pairs.workers import Workers

STOP_S: Final = HAND_OVER_S + 13.0
"""A stop takes no longer, with what is committed and closed on a busy machine."""
_STOP_WITHOUT_COORDINATOR_S: Final = 45.0
"""The same, if the coordinator of its commits has to be elected first."""
_SETTLE_S: Final = 30.0
_SOON_S: Final = 3.0
_LOOK_S: Final = 0.1
_RESTING: Final = threading.Event()
_ANNOUNCED: Final = "this worker leaves when others have taken its tasks over"
_NOT_ANNOUNCED: Final = ("static", "all")


class OwnersWatch:
    """Looks at a group all along: who has which task."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.group: GroupDescription | None = None
        """As the coordinator has described it last."""
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        with Admin({**self._workers.host.client, "default.api.timeout.ms": "5000"}) as admin:
            while not self._is_over.wait(_LOOK_S):
                with suppress(KafkaError, TimeoutError):  # it has no coordinator now
                    self.group = admin.describe_group(self._workers.name)
                    self._check(self.group)

    def _check(self, group: GroupDescription) -> None:
        owners = Counter(task for each in group.members for task in _tasks(each.tasks))
        twice = sorted(task for task, count in owners.items() if count > 1)
        if twice and not self.problems:
            self.problems.append(f"tasks {twice} have two owners: {group.members}")

    def counts(self) -> dict[int, int]:
        """Return how many tasks each worker has."""
        group = self.group
        if group is None:
            return {}
        by_name = {each.member_id: len(_tasks(each.tasks)) for each in group.members}
        return {
            each: by_name.get(self._workers.member(each), 0) for each in self._workers.processes
        }

    def is_settled(self) -> bool:
        """Whether all workers that run are members, and no task moves."""
        group, workers = self.group, self._workers
        there = set() if group is None else {each.member_id for each in group.members}
        is_stable = group is not None and group.state.lower() == "stable"
        return is_stable and there == {workers.member(each) for each in workers.processes}

    def heir_of(self, worker: int) -> int | None:
        """Return a worker that is to get tasks which it has not, or copies of them."""
        group, workers = self.group, self._workers
        for member in () if group is None else group.members:
            tasks = member.tasks or MemberTasks()
            is_heir = bool(set(member.target) - set(member.assignment)) or bool(tasks.target_warmup)
            for each in workers.processes:
                if is_heir and each != worker and workers.member(each) == member.member_id:
                    return each
        return None


def _tasks(tasks: MemberTasks | None) -> Sequence[str]:
    return () if tasks is None else tasks.active


class Stop:
    """A worker that is to stop."""

    def __init__(self, workers: Workers, worker: int) -> None:
        self._workers = workers
        self._process = workers.processes[worker]
        self._said = len(workers.said(worker))
        self.worker = worker
        self._began = time.monotonic()
        workers.begin_stop(worker)

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def has_announced(self) -> bool:
        """Whether it has said that it hands its tasks over."""
        return _ANNOUNCED in self._workers.said(self.worker)[self._said :]

    def await_announcement(self) -> None:
        """Wait until it has said that, or has ended."""
        _await(lambda: self.has_announced() or not self.runs)

    def problems(self, within_s: float = STOP_S, *, announces: bool | None = True) -> list[str]:
        """Wait for its end. Return what is wrong with it, if it is to say that it hands over, or is
        not; None for what does not matter."""
        found = self._workers.await_stop(self.worker)
        seconds = time.monotonic() - self._began
        if seconds > within_s:
            found.append(f"worker {self.worker} has taken {seconds:.1f} s to stop")
        if announces is not None and announces is not self.has_announced():
            found.append(f"worker {self.worker}: that it hands over is to be {announces}")
        return found


def hand_over(workers: Workers, case: Case, begin_load: Callable[[], None]) -> list[str]:
    """Stop workers while records come. Return what is wrong with that."""
    with OwnersWatch(workers) as watch:
        _await(watch.is_settled)
        counts = watch.counts()
        if not any(counts.values()):
            return [f"no worker has tasks: {watch.group}"]
        begin_load()
        leaving = max(counts, key=lambda each: counts[each])
        wrong = _handed_over(workers, case, watch, leaving)
    return wrong + watch.problems


def _handed_over(workers: Workers, case: Case, watch: OwnersWatch, leaving: int) -> list[str]:
    kind, known = case["hand-over"], list(workers.processes)
    if kind in ("rolling", "upgrade"):
        return _rolled(
            workers, watch, kind, [leaving, *(each for each in known if each != leaving)]
        )
    if kind == "all":
        stops = [Stop(workers, each) for each in known]
        wrong = [problem for each in stops for problem in each.problems(announces=None)]
        for each in known:
            workers.start(each)
        return wrong
    stop = Stop(workers, leaving)
    if kind not in _NOT_ANNOUNCED:
        stop.await_announcement()
    within_s = STOP_S
    match kind:
        case "kill leaving":
            workers.kill(leaving)
            workers.start(leaving)
            return [] if stop.has_announced() else [f"worker {leaving} has not handed over"]
        case "kill heir":
            _await(lambda: watch.heir_of(leaving) is not None or not stop.runs, _SOON_S)
            heir = watch.heir_of(leaving)
            heir = next(each for each in known if each != leaving) if heir is None else heir
            workers.kill(heir)
            workers.start(heir)
        case "kill coordinator":
            workers.host.kill(workers.name)
            workers.host.start()
            within_s = _STOP_WITHOUT_COORDINATOR_S
        case "more workers":
            workers.start(max(known) + 1)
    wrong = stop.problems(within_s, announces=kind not in _NOT_ANNOUNCED)
    workers.start(leaving)
    return wrong


def _rolled(workers: Workers, watch: OwnersWatch, kind: str, order: Sequence[int]) -> list[str]:
    """Replace all workers, one after the other: by a new version while the first one leaves, or by
    themselves, as soon as they have tasks again."""
    wrong: list[str] = []
    for number, each in enumerate(order):
        has_tasks = bool(watch.counts().get(each))
        stop = Stop(workers, each)
        if kind == "upgrade" and not number:
            stop.await_announcement()
            workers.is_upgraded = True
            workers.start(max(order) + 1)
        wrong += stop.problems(announces=True if has_tasks else None)
        workers.start(each)
        _await(watch.is_settled)
    return wrong


def _await(is_enough: Callable[[], bool], within_s: float = _SETTLE_S) -> None:
    """Wait until it is so, or the time is over: what is wrong is found by the caller."""
    until = time.monotonic() + within_s
    while not is_enough() and time.monotonic() < until:
        _RESTING.wait(_LOOK_S)
