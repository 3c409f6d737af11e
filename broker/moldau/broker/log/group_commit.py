"""Acknowledgement after fsync, with one fsync for many appends.

Invariants: a callback is called once, after a sync that began later than the append, and in the
order of `submit` for one log. At most one round of syncs of a directory is under way. When a sync
fails, all callbacks of that log get the KafkaError, and the log takes itself out of service.

One fsync takes 140 us; shared by 64 batches it is 9 us for each. A hop to a thread for every append
would cost more than waiting. So the first `submit` starts a round, later ones share the next round,
and there is no timer. There is one GroupCommit for a directory, so a disk that stalls delays only
its own logs. Where the kernel's own workers are faster than threads (`SyncContest`), they get the
usual round: one file for each log, and no names.

The files of one round are synced in parallel. A journal (ext4's) puts what is requested at the same
time into one commit; requested in sequence, each sync waits for a commit of its own (six files: 0.6
ms against 10 ms).

Callbacks and not futures: a response is written when it is ready, without a task for it.

Choose the faster way to sync files, on this disk and at this time. A pure core.

Threads cost the process more: they must be woken, and all of them need the interpreter. But the
scheduler determines how long the kernel's workers take: on a quiet machine about as long as
threads, on a crowded one anything from half to several times as long. So each round is timed. The
two ways take turns at first. Then the faster one gets the next rounds, until they are compared
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.log.flush import FlushJob
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.rounds import ended, new_future, rest
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.log.directory import LogDirectory
    from moldau.runtime.files import File

TRIES: Final = 8
"""The number of rounds of each way in a contest."""
ROUNDS: Final = 300
"""The number of rounds of the winner before the next contest."""


class SyncContest:
    """The contest of one directory. Ask `is_kernel_next` before a round, and report its time with
    `took`."""

    __slots__ = ("_is_kernel", "_left", "_seconds")

    def __init__(self) -> None:
        self._is_kernel = False
        self._left = 0
        self._seconds: tuple[list[float], list[float]] = ([], [])
        """The times of the rounds in this contest: of threads, and of the kernel."""

    @property
    def is_kernel_next(self) -> bool:
        """Whether the kernel syncs the next round."""
        if self._left:
            return self._is_kernel
        of_threads, of_kernel = self._seconds
        return len(of_kernel) <= len(of_threads)

    def took(self, seconds: float, *, by_kernel: bool) -> None:
        """Record the time of a round that either way can do. If the kernel was chosen for the round
        but did not take it, the threads win the contest."""
        if self._left:
            self._left -= 1
            return
        of_threads, of_kernel = self._seconds
        if self.is_kernel_next and not by_kernel:
            self._decide(is_kernel=False)
            return
        (of_kernel if by_kernel else of_threads).append(seconds)
        if min(len(of_threads), len(of_kernel)) >= TRIES:
            self._decide(is_kernel=_median(of_kernel) <= _median(of_threads))

    def _decide(self, *, is_kernel: bool) -> None:
        self._is_kernel = is_kernel
        self._left = ROUNDS
        self._seconds = ([], [])


SYNCS_AT_ONCE: Final = 6
"""Parallel syncs of one directory. Fewer than the runtime has threads, so that another directory
gets its turn."""

OnDurable: TypeAlias = Callable[[KafkaError | None], None]
Job: TypeAlias = tuple[PartitionLog, FlushJob]
Sync: TypeAlias = "tuple[list[Job], asyncio.Future[list[OSError | None]]]"


class GroupCommit:
    """The syncs of one log directory."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: dict[PartitionLog, list[OnDurable]] = {}
        self._is_running = False
        self._contest = SyncContest()
        self._task: asyncio.Task[None] | None = None
        self.sync_count = 0
        """The number of rounds so far. A round syncs every log with a waiting callback."""

    def submit(self, log: PartitionLog, on_durable: OnDurable) -> None:
        """Call `on_durable` when all current records of `log` are durable, or cannot become so. A
        callback equal to the one submitted last for this log in this round is called once."""
        waiting = self._waiting.get(log)
        if waiting is None:
            self._waiting[log] = [on_durable]
        elif waiting[-1] != on_durable:
            waiting.append(on_durable)
        if not self._is_running:
            self._start()

    def _start(self) -> None:
        self._is_running = True
        self._task = self._runtime.spawn(self._run(), name="group-commit")

    async def durable(self, log: PartitionLog) -> None:
        """Wait until all current records of `log` are durable. Raise KafkaError if that fails."""
        done: asyncio.Future[None] = new_future()
        self.submit(log, partial(_settle, done))
        await done

    async def idle(self) -> None:
        """Wait until no callback is waiting."""
        while self._task is not None and self._is_running:
            await ended(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting:
                # Let connections that are read in this turn of the event loop join the round.
                await rest(0)
                await self._commit()
        finally:
            self._is_running = False
            if self._waiting:  # a callback raised; the others must still be called
                self._start()

    async def _commit(self) -> None:
        """Do one round."""
        waiting, self._waiting = self._waiting, {}
        jobs: list[Job] = []
        outcomes: dict[PartitionLog, KafkaError | None] = {}
        for log in waiting:
            try:
                jobs.append((log, log.flushing.begin()))
            except KafkaError as error:
                outcomes[log] = without_frames(error)
        files = [file for _, job in jobs if (file := job.only_file) is not None]
        if jobs and len(files) == len(jobs):
            await self._sync_files(jobs, files, outcomes)
        else:
            await _hear(self._in_threads(jobs), outcomes)
        self.sync_count += 1
        with ExitStack() as calls:  # calls each callback, even if others raise
            for log in reversed(waiting):
                for on_durable in reversed(waiting[log]):
                    calls.callback(on_durable, outcomes[log])

    async def _sync_files(
        self, jobs: list[Job], files: list[File], outcomes: dict[PartitionLog, KafkaError | None]
    ) -> None:
        """Sync a usual round, in the faster way."""
        clock, contest = self._runtime.clock, self._contest
        began = clock.monotonic()
        syncs = self._runtime.sync_data(files) if contest.is_kernel_next else None
        if syncs is None:
            await _hear(self._in_threads(jobs), outcomes)
        else:
            ours, rest_of_them = jobs[: syncs.taken], jobs[syncs.taken :]
            others = self._in_threads(rest_of_them)
            await _hear([(ours, syncs.outcomes), *others], outcomes)
        contest.took(clock.monotonic() - began, by_kernel=syncs is not None)

    def _in_threads(self, jobs: list[Job]) -> list[Sync]:
        """Start all jobs in threads."""
        shares = [jobs[start::SYNCS_AT_ONCE] for start in range(min(len(jobs), SYNCS_AT_ONCE))]
        return [
            (share, self._runtime.run_blocking(_run_all, [job for _, job in share]))
            for share in shares
        ]


class GroupCommits:
    """The syncs of all directories of a node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._commits: dict[str, GroupCommit] = {}

    def of(self, directory: LogDirectory) -> GroupCommit:
        """Return the GroupCommit of a directory."""
        commit = self._commits.get(directory.path)
        if commit is None:
            commit = self._commits[directory.path] = GroupCommit(self._runtime)
        return commit

    async def idle(self) -> None:
        """Wait until no sync is running and no callback is waiting."""
        for commit in list(self._commits.values()):
            await commit.idle()


def _settle(done: asyncio.Future[None], error: KafkaError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(without_frames(error))


async def _hear(syncs: list[Sync], outcomes: dict[PartitionLog, KafkaError | None]) -> None:
    """Wait for all syncs, and store the outcome for each log."""
    for jobs, sync in syncs:
        for (log, job), failure in zip(jobs, await sync, strict=True):
            outcomes[log] = _end(log, job, failure)


def _end(log: PartitionLog, job: FlushJob, error: OSError | None) -> KafkaError | None:
    try:
        log.flushing.end(job, error)
    except KafkaError as refused:
        return without_frames(refused)
    return None


def _run_all(jobs: Sequence[FlushJob]) -> list[OSError | None]:
    """Run the jobs, in a thread. Return the error of each job, or None."""
    errors: list[OSError | None] = []
    for job in jobs:
        try:
            job.run()
        except OSError as error:
            errors.append(without_frames(error))
        else:
            errors.append(None)
    return errors


def _median(values: Sequence[float]) -> float:
    """Like that of `statistics`, which imports fractions and decimals: a hundredth of a start."""
    ordered, half = sorted(values), len(values) // 2
    return (ordered[half] + ordered[~half]) / 2
