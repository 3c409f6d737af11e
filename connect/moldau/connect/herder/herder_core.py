"""What runs on this worker, and what has to start, stop or be restarted: a volatile core. No IO.

Sequence of a new connector: (1) its config is in the log; (2) `ready` wants it started; (3) its
task configs are written, if they differ; (4) the commit record makes its tasks wanted; (5) `ready`
wants them started.

A stop removes the task configs. A connector that is resumed before its stop was carried out here is
begun again all the same, so that it publishes them again.

Invariants: each `ready` has one kind of work, stops before starts, and the next one follows from
its outcome. So two starts of one task never overlap, and no task of an old config runs beside one
of a new config. `take_statuses` has the statuses to write, in the order in which they occurred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from moldau.connect.herder import plan
from moldau.connect.herder.membership import Membership
from moldau.connect.herder.plan import ConnectorRun, RunStep, RunStepKind
from moldau.connect.storage.configs import ConfigImage, RestartRequest
from moldau.connect.storage.keys import TargetState, TaskId
from moldau.connect.storage.statuses import ConnectorState, StatusImage
from moldau.connect.task.membership import StopFor
from moldau.connect.worker.restarts import RestartHistory
from moldau.connect.worker.task_run import TaskRun
from moldau.deferred import dataclass
from moldau.runtime.restarts import RestartPolicy

What = str | TaskId

RETRY_MS: Final = 1_000
RELOAD_MS_MIN: Final = 1_000


@dataclass(frozen=True, slots=True)
class OwedStatus:
    """A status to write; without a state it is deleted."""

    what: What
    state: ConnectorState | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class HerderReady:
    """What the herder has to do next, of one kind, and when to ask again if nothing happens."""

    reloads: tuple[str, ...] = ()
    """Connectors whose configs have values that are outdated."""
    stops: Mapping[What, StopFor] = field(default_factory=dict)
    """Tasks and connectors; tasks end first."""
    begins: tuple[RunStep, ...] = ()
    deletions: tuple[What, ...] = ()
    """Statuses of what does not exist any more, left by workers that died."""
    is_paused: bool = False
    """Whether nothing is done until `wake`, because something has failed."""
    wake_ms: int | None = None

    @property
    def wake(self) -> float | None:
        """That time in seconds, when its millisecond is over."""
        return None if self.wake_ms is None else (self.wake_ms + 1) / 1000


class HerderCore:
    """The runs of one worker. Times are those of the monotonic clock, in milliseconds."""

    def __init__(
        self,
        membership: Membership,
        configs: ConfigImage,
        statuses: StatusImage,
        is_fenced: Callable[[Mapping[str, str]], bool],
    ) -> None:
        """`is_fenced` says whether tasks with this config have fenced producers."""
        self.running: dict[What, ConnectorRun | TaskRun] = {}
        self.failed: set[What] = set()
        self.histories: dict[What, RestartHistory] = {}
        self._membership = membership
        self._configs = configs
        self._statuses = statuses
        self._is_fenced = is_fenced
        self._owed: list[OwedStatus] = []
        self._requests: list[RestartRequest] = []
        self._restarts: set[What] = set()
        self._kept: set[What] = set()
        """Tasks stopped to begin again at once, so their places in groups are kept."""
        self._fenced: dict[What, int] = {}
        """The generation of this worker in which each task was fenced."""
        self._outdated: dict[str, int] = {}
        """The time when values of a connector's config have to be read again."""
        self._paused_until_ms: int | None = None

    def history(self, what: What) -> RestartHistory:
        """Return the restarts of a connector or task."""
        return self.histories.setdefault(what, RestartHistory())

    # Events

    def on_restart_request(self, request: RestartRequest) -> None:
        """A user wants a connector and some of its tasks restarted, here or elsewhere."""
        self._requests.append(request)

    def on_restart(self, what: What) -> None:
        """A user wants this restarted; its count of failures in a row is reset."""
        if what in self.running:
            self._restarts.add(what)
            self.history(what).restarts.forget()
            self.on_state(what, ConnectorState.RESTARTING)

    def on_state(self, what: What, state: ConnectorState, trace: str | None = None) -> None:
        """A connector or task has a new state, which is written."""
        self._owed.append(OwedStatus(what, state, trace))

    def on_well(self, what: What, state: ConnectorState) -> None:
        """A connector or task runs, or is paused."""
        self.failed.discard(what)
        self.on_state(what, state)

    def on_failure(
        self, what: What, trace: str, policy: RestartPolicy, now_ms: int, luck: float
    ) -> None:
        """A connector or task has failed: it is restarted if the policy says so."""
        self.failed.add(what)
        self.on_state(what, ConnectorState.FAILED, trace)
        history = self.history(what)
        history.last_error = trace.split("\n", 1)[0]
        history.restarts.policy = policy
        history.restarts.on_failure(now_ms, luck)

    def on_stays_failed(self, task: TaskId, trace: str, *, is_fenced: bool) -> None:
        """A task has failed until its config changes or a user restarts it. If it is fenced,
        another process runs it. Then it is restarted when this worker has joined its group again
        and still has the task: an earlier restart would fence the other process."""
        self.failed.add(task)
        if is_fenced:
            self._fenced[task] = self._membership.generation
        else:
            self.history(task).restarts.forget()
        self.on_state(task, ConnectorState.FAILED, trace)

    def on_outdated(self, name: str, after_ms: int, now_ms: int) -> None:
        """A value of the connector's config expires."""
        self._outdated[name] = now_ms + max(RELOAD_MS_MIN, after_ms)

    def on_reloaded(self, name: str) -> None:
        """All workers were asked to restart the connector, which reads its values again."""
        del self._outdated[name]

    def on_stopped(self, what: What) -> None:
        """A connector or task has ended, because `ready` wanted it."""
        self.running.pop(what, None)
        self.failed.discard(what)
        self._fenced.pop(what, None)
        if what in self._restarts:
            self._restarts.discard(what)
        else:
            self.histories.pop(what, None)
            state = ConnectorState.UNASSIGNED if self._exists(what) else None
            self._owed.append(OwedStatus(what, state))

    def on_begin(self, step: RunStep, now_ms: int) -> None:
        """A connector or task is about to be started or changed."""
        what, run = step.what, step.run
        assert run is not None
        self.running[what] = run
        self._kept.discard(what)
        if not self.stays_as_it_is(step):
            self.failed.discard(what)
        if step.kind in (RunStepKind.START_TASK, RunStepKind.START_CONNECTOR):
            self.history(what).on_started(now_ms)

    def on_round_failed(self, now_ms: int) -> None:
        """What `ready` wanted could not be done: it is tried again after a pause."""
        self._paused_until_ms = now_ms + RETRY_MS

    # Questions

    @property
    def is_paused(self) -> bool:
        """Whether a round has failed, and its pause is not over."""
        return self._paused_until_ms is not None

    def stays_as_it_is(self, step: RunStep) -> bool:
        """Whether a failed task only gets a new target, for when it is restarted."""
        return step.kind is RunStepKind.CHANGE_TASK and step.what in self.failed

    def has_tasks(self, name: str) -> bool:
        """Whether a task of the connector runs, or may be started. Other workers count if this one
        leads."""
        tasks = (each for each in self.running if isinstance(each, TaskId))
        runs_here = any(task.connector == name for task in tasks)
        runs = runs_here or self._membership.others_have(name)
        return runs or bool(self._configs.tasks(name))

    def take_statuses(self) -> list[OwedStatus]:
        """Return the statuses to write, and forget them."""
        owed, self._owed = self._owed, []
        return owed

    def ready(self, now_ms: int) -> HerderReady:
        """Return what has to be done now."""
        if self._paused_until_ms is not None:
            if now_ms < self._paused_until_ms:
                return HerderReady(is_paused=True, wake_ms=self._paused_until_ms)
            self._paused_until_ms = None
        mine = self._membership.assignment(self._configs)
        wanted = plan.wanted(self._configs, mine, self._is_fenced)
        self._take_requests(wanted)
        self._take_due(now_ms)
        for name in self._outdated.keys() - self.running.keys():
            del self._outdated[name]
        reloads = tuple(name for name, due_ms in self._outdated.items() if due_ms <= now_ms)
        if reloads:
            return HerderReady(reloads=reloads)
        self._restarts = {what for what in self._restarts if what in self.running}
        again = {what for what in self._restarts if what in wanted}
        steps = plan.steps(wanted, {k: v for k, v in self.running.items() if k not in again})
        gone = [each.what for each in steps if each.kind <= RunStepKind.STOP_CONNECTOR]
        starts = {each.what for each in steps if each.kind is RunStepKind.START_TASK}
        # What was to begin again, and does not exist any more, gives up its place now. If it has
        # moved, the worker that runs it now takes the place.
        self._kept, before = self._kept & starts, self._kept
        given_up = {what for what in before - starts if self._reason(what) is StopFor.END}
        if gone or again or given_up:
            self._restarts = again
            reasons = {
                what: StopFor.RESTART if what in starts else self._reason(what)
                for what in (*gone, *again, *given_up)
            }
            self._kept |= {what for what, why in reasons.items() if why is StopFor.RESTART}
            return HerderReady(stops=reasons)
        steps += self._begun_again(steps)
        if steps:
            return HerderReady(begins=tuple(steps))
        return HerderReady(deletions=self._left_over(), wake_ms=self._wake_ms())

    def _begun_again(self, steps: list[RunStep]) -> list[RunStep]:
        """Return the steps of resumed connectors that run here and were not stopped meanwhile."""
        resumed, self._configs.resumed = self._configs.resumed, []
        known = {each.what for each in steps}
        runs = ((name, self.running.get(name)) for name in dict.fromkeys(resumed))
        return [
            RunStep(RunStepKind.CHANGE_CONNECTOR, name, run)
            for name, run in runs
            if name not in known and isinstance(run, ConnectorRun)
        ]

    def _take_requests(self, wanted: Mapping[What, ConnectorRun | TaskRun]) -> None:
        requests, self._requests = self._requests, []
        failed = {task for task in self.failed if isinstance(task, TaskId)}
        for request in requests:
            name = request.connector
            if name in wanted and (not request.only_failed or name in self.failed):
                self.on_restart(name)
            if request.include_tasks:
                for task in plan.restarted_tasks(
                    self._configs, name, failed, only_failed=request.only_failed
                ):
                    self.on_restart(task)

    def _take_due(self, now_ms: int) -> None:
        for what, history in self.histories.items():
            if history.restarts.take_due(now_ms):
                self._restarts.add(what)
        for what, generation in self._fenced.items():
            if generation != self._membership.generation:
                self._restarts.add(what)

    def _reason(self, what: What) -> StopFor:
        if not isinstance(what, TaskId):
            return StopFor.END
        entry = self._configs.get(what.connector)
        is_over = entry is None or entry.target is TargetState.STOPPED or not self._exists(what)
        return StopFor.END if is_over else StopFor.MOVE

    def _exists(self, what: What) -> bool:
        name = what.connector if isinstance(what, TaskId) else what
        is_task = isinstance(what, TaskId)
        return self._configs.get(name) is not None and (
            not is_task or what in self._configs.tasks(name)
        )

    def _left_over(self) -> tuple[What, ...]:
        if not self._membership.is_leader:
            return ()
        known: list[What] = [*self._statuses.connectors, *self._statuses.tasks]
        return tuple(each for each in known if not self._exists(each) and each not in self.running)

    def _wake_ms(self) -> int | None:
        each_due = (each.restarts.due_ms for each in self.histories.values())
        due = [each for each in each_due if each is not None]
        return min((*due, *self._outdated.values()), default=None)
