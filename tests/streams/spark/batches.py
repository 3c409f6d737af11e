"""The engine `spark` without Java: its driver and its stages on a real broker, in one process.

What Spark does here is done by hand: it calls a batch's stage for each task, with what was pickled,
in any order. Between batches the app may move to another machine (its stores are read from the
checkpoint), and each batch has a driver of its own, which may die before it commits.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.executors.clients import CLIENTS
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.spark.engine import SparkApp
from moldau.streams.spark.inputs import Inputs
from moldau.streams.spark.preparation import prepared
from moldau.streams.spark.query import SubtopologyQuery
from tests.connect.processes import wait_until

pytest.importorskip("pyspark", reason="pyspark is not installed")
_ATTEMPTS = count()
"""No two attempts of tasks have one number."""


class Died(Exception):
    """The driver has died when its tasks had committed a batch."""


class Context:
    """A SparkContext that runs its tasks here."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self._folder = folder
        self._chance = chance
        self._given: list[Any] = []
        self._stage: Callable[[Iterator[Any]], Iterator[Any]] | None = None
        self.machine = 0
        self.dies = False
        self.before: Callable[[], object] | None = None
        """Called once, when a batch begins in the executors."""

    def parallelize(self, given: list[Any], slices: int) -> Context:
        assert slices == len(given)
        self._given = self._chance.sample(given, len(given))
        return self

    def mapPartitions(self, stage: Any) -> Context:
        self._stage = pickle.loads(pickle.dumps(stage))  # noqa: S301 - our own
        return self

    def collect(self) -> list[Any]:
        assert self._stage is not None
        before, self.before = self.before, None
        if before is not None:
            before()
        with _on_machine(self._folder / f"machine-{self.machine}"):
            found = [result for each in self._given for result in self._stage(iter([each]))]
        if self.dies:
            self.dies = False
            raise Died
        return found

    def addJobTag(self, tag: str) -> None:
        pass

    def removeJobTag(self, tag: str) -> None:
        pass

    def cancelJobsWithTag(self, tag: str) -> None:
        pass

    def setLocalProperty(self, name: str, text: str | None) -> None:
        pass


class Batches:
    """An app on the engine. `chance` sizes batches, moves tasks and repeats batches."""

    def __init__(
        self,
        plan: Plan,
        servers: str,
        folder: Path,
        chance: Random,
        sizes: Sequence[int] = (5, 20, 1000),
        **settings: str,
    ) -> None:
        """`settings` have their names with `_` for `.`."""
        given = {"bootstrap.servers": servers, "processing.guarantee": "exactly_once_v2"}
        given |= {name.replace("_", "."): text for name, text in settings.items()}
        self._prepared = prepared(plan, str(folder / "checkpoint"), given)
        own = self._prepared.settings
        self._plan = plan
        self._chance = chance
        self._sizes = sizes
        self._context = Context(folder, chance)
        self.inputs = Inputs(own, self._prepared.layout, self._prepared.checkpoint)

    def close(self) -> None:
        self.inputs.close()
        self._prepared.close()
        CLIENTS.clear()  # an executor keeps them open

    def lose_lock(self) -> None:
        """Go on without the lock of the checkpoint, as on a shared disk that has no locks."""
        self._prepared.checkpoint.close()

    def settle(self) -> None:
        """Run batches until nothing is left to read."""
        while self._run_all() or self._has_more():
            pass

    def _run_all(self) -> bool:
        ran = [self._ran(each) for each in self._plan.programs]
        return any(ran)

    def die(self) -> None:
        """Run a batch of the first sub-topology, which its tasks commit, and the driver does not:
        it dies before."""
        self._context.dies = True
        with pytest.raises(Died):
            self._query(self._plan.programs[0]).run_batch(self.inputs)

    def _ran(self, program: Program) -> bool:
        """Run a batch of what is there, or of a part of it. Return whether there was something."""
        self._context.dies = self._chance.random() < 0.2
        if self._chance.random() < 0.2:  # the executor is lost
            self._context.machine += 1
        try:
            return self._query(program).run_batch(self.inputs)
        except Died:
            return True
        finally:
            self._context.dies = False

    def _has_more(self) -> bool:
        wait_until(self.inputs.are_settled, "transactions are open")
        return any(self._query(each).has_more(self.inputs, {}) for each in self._plan.programs)

    def _query(self, program: Program) -> SubtopologyQuery:
        """A driver that has just started."""
        most = self._chance.choice(self._sizes)
        return SubtopologyQuery(replace(self._prepared, batch_records=most), program, self._context)


@contextmanager
def app_on(
    context: Context, plan: Plan, checkpoint: Path, given: Mapping[str, object]
) -> Iterator[SparkApp]:
    """Yield an app on a Spark session with this context."""
    try:
        kept = prepared(plan, str(checkpoint), given)
        with SparkApp(kept, SimpleNamespace(sparkContext=context)) as app:
            yield app
    finally:
        CLIENTS.clear()


@contextmanager
def _on_machine(folder: Path) -> Iterator[None]:
    """A stage finds the stores of this machine, and no others."""
    from pyspark import SparkFiles, TaskContext

    def attempt() -> Any:
        return SimpleNamespace(taskAttemptId=lambda: next(_ATTEMPTS))

    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskContext, "get", attempt)
        patch.setattr(SparkFiles, "_is_running_on_worker", True)
        patch.setattr(SparkFiles, "_root_directory", str(folder))
        yield
