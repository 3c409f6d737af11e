"""A sub-topology on the driver: batch after batch, each a Spark job with a Spark task for each of
the tasks that have something to read.

Why not a streaming query of Spark's: it brings the records of a batch to Java, shuffles them, and
brings them to Python again, which is nine tenths of the time (bench/notes-spark.md), and keeps
offsets of its own beside those of the tasks. Here Spark places tasks, starts them again when an
executor is lost, and collects what they came to.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.client import TopicPartition
from moldau.streams.changelog.ranges import BrokersAway
from moldau.streams.plan.placement import placed_inputs
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.spark.failures import slow_python, without_java
from moldau.streams.spark.global_tables import Notices
from moldau.streams.spark.inputs import Inputs
from moldau.streams.spark.preparation import Preparation
from moldau.streams.spark.ranges import TaskRanges, missing_starts, task_ranges, with_starts
from moldau.streams.spark.stage import Stage, TaskResult
from moldau.streams.spark.versions import Version

LOG: Final = logging.getLogger("moldau.streams")
_NOT_READ: Final = ("group.", "enable.auto.commit", "auto.offset.reset", "client.id")
_DESCRIPTION: Final = "spark.job.description"


class SubtopologyQuery:
    """One sub-topology. One thread at a time runs its batches; any thread may cancel."""

    def __init__(self, prepared: Preparation, program: Program, context: Any) -> None:
        """`context` is the SparkContext."""
        self._prepared = prepared
        self._program = program
        self._context = context
        self._kept = prepared.checkpoint
        self._batch, _ = self._kept.last(program.index, 0)
        self._versions: dict[int, Version] | None = None
        self._notices = Notices()
        self._misplaced: set[str] = set()
        """The inputs of which a misplaced key was reported."""
        self.name = f"{program.app}-{program.index}"
        self.records = 0
        """How many records the committed batches of this driver have run."""
        self.restored = 0
        """How many times a task has read its stores from the checkpoint."""

    def run_batch(self, inputs: Inputs, until: Mapping[TopicPartition, int] | None = None) -> bool:
        """Run what is there, and commit it. Return False if nothing is there. `until` limits the
        ends of inputs. Raise StreamsError for a record that fails, BrokersAway if a task could not
        reach brokers: the batch may run again."""
        chosen = self._chosen(inputs, until or {})
        if not chosen:
            return False
        self._kept.check_held()
        inputs.check_owner(self._program)
        batch = self._batch + 1
        found = self._results(self._stage(batch, inputs), chosen, batch)
        _check(found)
        for text in self._notices.new(notice for each in found for notice in each.notices):
            LOG.warning("streams: %s", text)
        for key in (key for each in found for key in each.misplaced):
            if key.topic not in self._misplaced:
                self._misplaced.add(key.topic)
                LOG.warning("streams: %s", key)
        versions = self._begun(inputs)
        versions.update((each.partition, each.version) for each in found)
        self._kept.commit(self._program.index, batch, versions)
        self._batch = batch
        inputs.commit(versions)
        inputs.purge(self._program, versions)
        self.records += sum(each.records for each in found)
        self.restored += sum(each.is_restored for each in found)
        return True

    def has_more(self, inputs: Inputs, until: Mapping[TopicPartition, int]) -> bool:
        """Whether there is something to read."""
        return bool(self._chosen(inputs, until))

    def cancel(self) -> None:
        """End the batch that runs, if one does. It does not count. Without Java none runs."""
        with without_java():
            self._context.cancelJobsWithTag(self.name)

    def _chosen(self, inputs: Inputs, until: Mapping[TopicPartition, int]) -> list[TaskRanges]:
        ids = inputs.ids()
        versions = self._begun(inputs)
        ends = inputs.ends(self._program)
        limited = {where: min(end, until.get(where, end)) for where, end in ends.items()}
        return task_ranges(versions, limited, ids, self._prepared.batch_records)

    def _begun(self, inputs: Inputs) -> dict[int, Version]:
        """Return the versions of the tasks, with offsets for all inputs."""
        if self._versions is not None:
            return self._versions
        versions = self._kept.versions_before(self._program.index, self._batch + 1)
        # A partition that has come after the checkpoint has begun is read from its beginning.
        missing = missing_starts(versions, inputs.of(self._program))
        self._versions = with_starts(versions, inputs.starts(missing))
        inputs.commit(self._versions)
        return self._versions

    def _stage(self, batch: int, inputs: Inputs) -> Stage:
        prepared, kept, program = self._prepared, self._kept, self._program
        settings = prepared.settings
        return Stage(
            app=program.app,
            index=program.index,
            driver=prepared.driver,
            program=prepared.programs[program.index],
            consumer=consumer_settings(settings.of("consumer")),
            producer=settings.of("producer"),
            admin=settings.of("admin"),
            checkpoint=kept.id if settings.is_exactly_once else None,
            kept=kept.state(program.index),
            batch=batch,
            run=kept.run,
            cache_bytes=prepared.cache_bytes,
            lakes=prepared.lakes.of(program),
            topics=inputs.whole_topics(program),
            counts=self._counts(),
        )

    def _counts(self) -> dict[str, int]:
        layout = self._prepared.layout
        placed = placed_inputs(layout.plan).keys() & set(self._program.inputs)
        return {name: layout.counts[name] for name in placed}

    def _results(self, stage: Stage, chosen: list[TaskRanges], batch: int) -> list[TaskResult]:
        context = self._context
        context.addJobTag(self.name)
        context.setLocalProperty(_DESCRIPTION, f"{self.name}: batch {batch}")
        try:
            rows = context.parallelize(chosen, len(chosen))
            with slow_python():
                found: list[TaskResult] = rows.mapPartitions(stage).collect()
        finally:
            context.setLocalProperty(_DESCRIPTION, None)
            context.removeJobTag(self.name)
        return found


def _check(found: Sequence[TaskResult]) -> None:
    """Raise a problem of the tasks; first one that stays."""
    problems = [(each.is_passing, each.problem) for each in found if each.problem is not None]
    if problems:
        is_passing, problem = min(problems)
        raise (BrokersAway if is_passing else StreamsError)(problem)


def consumer_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of executors' consumers: they are in no group, and read what is
    committed."""
    found = {name: text for name, text in given.items() if not name.startswith(_NOT_READ)}
    found.setdefault("isolation.level", "read_committed")
    return found
