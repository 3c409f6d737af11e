"""The MirrorSourceConnector: finds topics, makes their copies, divides partitions among tasks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from moldau.client import KafkaError
from moldau.connect.api import ExactlyOnceSupport, Problem, SourceConnector
from moldau.connectors.promise import AT_LEAST_ONCE, promised
from moldau.errors import MoldauError
from moldau.mirror.clusters import (
    SIDES,
    as_connect_error,
    client_problems,
    ensure_compacted,
    open_admin,
    reads_committed,
)
from moldau.mirror.copies import TopicCopies
from moldau.mirror.rounds import Job, Rounds
from moldau.mirror.settings import ASSIGNED, PACKAGE, SourceMirrorConfig
from moldau.mirror.source_task import MirrorSourceTask, check_partition
from moldau.mirror.topics import divided


class MirrorSourceConnector(SourceConnector):
    """Copies topics from one cluster to another."""

    task = MirrorSourceTask
    task_modules = ("moldau.mirror.source_task",)
    config_model = SourceMirrorConfig
    java_names: ClassVar[tuple[str, ...]] = (f"{PACKAGE}.MirrorSourceConnector",)

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._topics: dict[str, int] = {}

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._config = config = SourceMirrorConfig.of(props)
        if not config.enabled:
            return
        try:
            source, target = (
                self._opened.enter_context(open_admin(props, side, config.admin_timeout_ms))
                for side in SIDES
            )
            self._copies = TopicCopies(config, source, target)
            self._copies.check_clusters()
            if config.emits_syncs:
                holder = source if config.syncs_location == "source" else target
                setting = "offset-syncs.topic.replication.factor"
                ensure_compacted(holder, config.syncs_topic, config.syncs_replicas, setting)
            self._topics = self._copies.make(self._copies.topics())
            self._report_state()
            self._copies.sync_rules(self._topics)
        except KafkaError as error:
            raise as_connect_error(error, "the mirror cannot start") from error
        self._opened.enter_context(Rounds(self._jobs(), self.context))

    def _jobs(self) -> dict[str, Job]:
        config = self._config
        jobs: dict[str, Job] = {}
        if config.refreshes:
            jobs["refresh topics"] = (config.refresh_s, self._refresh)
        if config.syncs_configs:
            jobs["copy settings"] = (config.configs_s, self._sync_settings)
        if config.syncs_acls:
            jobs["copy rules"] = (config.acls_s, self._sync_rules)
        return jobs

    def stop(self) -> None:
        self._opened.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        partitions = [f"{topic}-{n}" for topic, count in self._topics.items() for n in range(count)]
        return [
            {**self.props, ASSIGNED: ",".join(share)} for share in divided(partitions, max_tasks)
        ]

    def _refresh(self) -> None:
        topics = self._copies.make(self._copies.topics())
        self._report_state()
        is_new, self._topics = topics != self._topics, topics
        if is_new:
            self.context.request_task_reconfiguration()

    def _report_state(self) -> None:
        cause = self._copies.refusal()
        if cause is None and not self._topics and not self._copies.topics():
            cause = "no topic of the source is chosen -> check topics and topics.exclude"
        self.context.report_waiting(cause)

    def _sync_settings(self) -> None:
        self._copies.sync_settings(self._topics)

    def _sync_rules(self) -> None:
        self._copies.sync_rules(self._topics)

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        return promised(AT_LEAST_ONCE, "records may come twice after a crash", props)

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return SUPPORTED if only committed records are read, as Java's does."""
        if reads_committed(props):
            return ExactlyOnceSupport.SUPPORTED
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        for partition, offset in offsets:
            check_partition(partition, offset)
        return True

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        return list(client_problems(props))

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """Return also temporary problems: a cluster that does not answer, or has no such topic."""
        found = self.validate(props)
        config = SourceMirrorConfig.read(props)
        if found or config.wrong or list(config.check()):
            return found
        for side in SIDES:
            try:
                with open_admin(props, side, config.admin_timeout_ms) as admin:
                    admin.describe_cluster()
            except MoldauError as error:
                found.append(Problem(f"{side}.cluster.bootstrap.servers", str(error)))
        return found
