"""The MirrorHeartbeatConnector: a record a second that shows that a mirror works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from moldau.client import KafkaError
from moldau.connect.api import SourceConnector, SourceRecord, SourceTask
from moldau.connect.data import OPTIONAL_BYTES
from moldau.connectors.pace import Pace
from moldau.connectors.promise import AT_LEAST_ONCE
from moldau.mirror.clusters import as_connect_error, ensure_compacted, open_admin
from moldau.mirror.formats import Heartbeat
from moldau.mirror.policy import HEARTBEATS
from moldau.mirror.rounds import Schedule
from moldau.mirror.settings import PACKAGE, HeartbeatConfig

_IDLE_S: Final = 0.5
_EMIT: Final = "emit"


class MirrorHeartbeatTask(SourceTask):
    """Writes heartbeats to the target."""

    java_name = f"{PACKAGE}.MirrorHeartbeatTask"

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()

    def start(self, props: Mapping[str, str]) -> None:
        self._config = HeartbeatConfig.of(props)
        interval_s = float(self._config.emit_s)
        self._schedule = Schedule({_EMIT: interval_s}, self._pace.monotonic() - interval_s)

    def poll(self) -> Sequence[SourceRecord] | None:
        if not self._schedule.ready(self._pace.monotonic()):
            self._pace.wait(_IDLE_S)
            return None
        now_ms, config = self._pace.wall_ms(), self._config
        beat = Heartbeat(config.source, config.target, now_ms)
        partition = {
            "sourceClusterAlias": config.source, "targetClusterAlias": config.target,
        }  # fmt: skip
        return [
            SourceRecord(
                partition, {"offset": 0}, HEARTBEATS, 0, OPTIONAL_BYTES, beat.key,
                OPTIONAL_BYTES, beat.value, now_ms,
            )
        ]  # fmt: skip

    def stop(self) -> None:
        self._pace.stop()


class MirrorHeartbeatConnector(SourceConnector):
    """Writes heartbeats from the mirror to the target."""

    task = MirrorHeartbeatTask
    config_model = HeartbeatConfig
    java_names: ClassVar[tuple[str, ...]] = (f"{PACKAGE}.MirrorHeartbeatConnector",)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._config = config = HeartbeatConfig.of(props)
        if not (config.enabled and config.emits):
            return
        setting = "heartbeats.topic.replication.factor"
        try:
            with open_admin(props, "target", config.admin_timeout_ms) as admin:
                ensure_compacted(admin, HEARTBEATS, config.heartbeats_replicas, setting)
        except KafkaError as error:
            raise as_connect_error(error, "the mirror cannot start") from error

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        is_on = self._config.enabled and self._config.emits
        return [dict(self.props)] if is_on else []

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        return f"{AT_LEAST_ONCE}: the newest heartbeat counts"

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        """Take any offset: a task reads none."""
        return True
