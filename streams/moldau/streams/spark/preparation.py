"""What an app needs before Spark starts. What is wrong with it is found here, without Java."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from moldau.config import BadSettings, Problem
from moldau.config.table import Row
from moldau.deferred import dataclass
from moldau.runtime.real import RealClock, RealRuntime
from moldau.runtime.real_files import RealFiles
from moldau.streams.changelog.topics import prepare
from moldau.streams.plan.dead_letters import with_dead_letters
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Plan
from moldau.streams.running import checked, task_settings
from moldau.streams.spark.beginning import begin
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.deployment import BATCH_RECORDS, batch_records
from moldau.streams.spark.lakes import LakeVersions
from moldau.streams.spark.limits import check
from moldau.streams.spark.shipping import pickled
from moldau.streams.worker.settings import (
    AppSettings,
    dead_letter_topic,
    group_protocol,
    max_task_idle_ms,
    num_standby_replicas,
)

_DRIVER_BYTES: Final = 8
_BY_SPARK: Final = "Spark decides where a task runs, and keeps its state"
_NOT_FOR_SPARK: Final[Mapping[Row, str]] = {
    max_task_idle_ms: "a task takes what its inputs have when a batch begins, in the order of "
    "times, and waits for no others",
    group_protocol: _BY_SPARK,
    num_standby_replicas: _BY_SPARK,
}
"""Settings that would have no effect, and why."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """An app that can run on Spark: its programs as bytes, its topics, and its checkpoint, which it
    holds until `close`."""

    lakes: LakeVersions
    programs: Mapping[int, bytes]
    settings: AppSettings
    cache_bytes: int
    layout: Layout
    checkpoint: Checkpoint
    batch_records: int
    driver: str
    """Which driver of the app this is, among all that its executors have met."""

    def close(self) -> None:
        """Release the checkpoint."""
        self.checkpoint.close()


def prepared(plan: Plan, checkpoint: str, given: Mapping[str, object]) -> Preparation:
    """Check the app, pickle it, hold its checkpoint, make its repartition topics, and note where
    a new checkpoint begins.

    Raise TopologyError or StreamsError for what is wrong."""
    check(plan)
    own = {name: each for name, each in given.items() if name == BATCH_RECORDS}
    settings = checked({name: each for name, each in given.items() if name not in own})
    _refuse_settings(settings)
    plan = with_dead_letters(plan, settings.own[dead_letter_topic])
    most = batch_records(own)
    lakes = LakeVersions(plan.lake_tables)
    programs = {each.index: pickled(each) for each in plan.programs}
    kept = Checkpoint.open(RealFiles(), checkpoint, plan, RealClock().wall_ms())
    with ExitStack() as on_failure:
        on_failure.callback(kept.close)
        layout = prepare(plan, settings)
        begin(kept, layout, settings)
        on_failure.pop_all()
    cache_bytes = task_settings(plan, settings).cache_bytes
    driver = RealRuntime().random.randbytes(_DRIVER_BYTES).hex()
    return Preparation(lakes, programs, settings, cache_bytes, layout, kept, most, driver)


def _refuse_settings(settings: AppSettings) -> None:
    """Raise BadSettings if one is given that has no effect here."""
    problems = [
        Problem(row.name, f"is not for the engine spark: {why}: leave it out", str(given))
        for row, why in _NOT_FOR_SPARK.items()
        if (given := settings.own[row]) != row.default
    ]
    if problems:
        raise BadSettings(problems)
