"""The MirrorCheckpointConnector: finds the source's groups and follows their offsets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Final

from moldau.client import KafkaError
from moldau.connect.api import SourceConnector, SourceRecord, SourceTask
from moldau.connect.data import OPTIONAL_BYTES
from moldau.connectors.pace import Pace
from moldau.connectors.promise import AT_LEAST_ONCE
from moldau.mirror.clusters import SIDES, as_connect_error, ensure_compacted, open_admin
from moldau.mirror.formats import Checkpoint
from moldau.mirror.group_offsets import GroupOffsets, chosen_groups
from moldau.mirror.rounds import Rounds, Schedule
from moldau.mirror.settings import ASSIGNED_GROUPS, PACKAGE, CheckpointConfig
from moldau.mirror.topics import divided

_log = logging.getLogger(__name__)
_IDLE_S: Final = 0.5
_EMIT, _SYNC = "emit", "sync"


class MirrorCheckpointTask(SourceTask):
    """Writes checkpoints of its groups, and sets their offsets on the target."""

    java_name = f"{PACKAGE}.MirrorCheckpointTask"

    _offsets: GroupOffsets | None = None

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._new: list[Checkpoint] = []
        """Checkpoints that are not yet returned; after an error the next poll returns them."""

    def start(self, props: Mapping[str, str]) -> None:
        self._config = config = CheckpointConfig.of(props)
        self._groups = list(filter(None, props.get(ASSIGNED_GROUPS, "").split(",")))
        self._topic = config.policy().checkpoints_topic(config.source)
        intervals = {_EMIT: float(config.emit_s)}
        if config.syncs_offsets:
            intervals[_SYNC] = float(config.sync_s)
        self._schedule = Schedule(intervals, self._pace.monotonic() - max(intervals.values()))
        try:
            self._offsets = GroupOffsets(config, props)
        except KafkaError as error:
            raise as_connect_error(error, "the mirror cannot start") from error

    def poll(self) -> Sequence[SourceRecord] | None:
        assert self._offsets is not None
        due = self._schedule.ready(self._pace.monotonic())
        if not due:
            self._pace.wait(_IDLE_S)
            return None
        try:
            self._new.extend(self._offsets.new_checkpoints(self._groups))
            if _SYNC in due:
                count = self._offsets.set_offsets(self._groups)
                if count:
                    _log.info("set %d offsets of groups on the target", count)
        except KafkaError as error:
            raise as_connect_error(error, "the groups' offsets cannot be copied now") from error
        new, self._new = self._new, []
        return [self._record(each) for each in new]

    def _record(self, checkpoint: Checkpoint) -> SourceRecord:
        where = checkpoint.where
        partition = {
            "group": checkpoint.group, "topic": where.topic, "partition": where.partition,
        }  # fmt: skip
        return SourceRecord(
            partition, {"offset": 0}, self._topic, 0, OPTIONAL_BYTES, checkpoint.key,
            OPTIONAL_BYTES, checkpoint.value, self._pace.wall_ms(),
        )  # fmt: skip

    def stop(self) -> None:
        self._pace.stop()
        if self._offsets is not None:
            self._offsets.close()


class MirrorCheckpointConnector(SourceConnector):
    """Writes where the source's groups continue on the target."""

    task = MirrorCheckpointTask
    config_model = CheckpointConfig
    java_names: ClassVar[tuple[str, ...]] = (f"{PACKAGE}.MirrorCheckpointConnector",)

    def __init__(self) -> None:
        self._groups: list[str] = []
        self._opened = ExitStack()

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._config = config = CheckpointConfig.of(props)
        if not (config.enabled and config.emits):
            return
        try:
            self._source, target = (
                self._opened.enter_context(open_admin(props, side, config.admin_timeout_ms))
                for side in SIDES
            )
            topic = config.policy().checkpoints_topic(config.source)
            setting = "checkpoints.topic.replication.factor"
            ensure_compacted(target, topic, config.checkpoints_replicas, setting)
            self._groups = chosen_groups(config, self._source)
        except KafkaError as error:
            raise as_connect_error(error, "the mirror cannot start") from error
        if config.refreshes:
            jobs = {"refresh groups": (float(config.refresh_s), self._refresh)}
            self._opened.enter_context(Rounds(jobs, self.context))

    def _refresh(self) -> None:
        groups = chosen_groups(self._config, self._source)
        is_new, self._groups = groups != self._groups, groups
        self.context.report_waiting(None)
        if is_new:
            self.context.request_task_reconfiguration()

    def stop(self) -> None:
        self._opened.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        shares = divided(self._groups, max_tasks)
        return [{**self.props, ASSIGNED_GROUPS: ",".join(share)} for share in shares]

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        return f"{AT_LEAST_ONCE}: the newest checkpoint counts"

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        """Take any offset: a task reads none."""
        return True
