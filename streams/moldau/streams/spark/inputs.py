"""The inputs of an app on the cluster: where their logs begin and end, and what is done with them.

For the driver's threads, of which each has one sub-topology.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.client import EARLIEST, LATEST, Topic, TopicPartition
from moldau.client.sync import Admin
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime.real import RealClock
from moldau.runtime.threads import here
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import group_of
from moldau.streams.spark.global_tables import WholeTopic
from moldau.streams.spark.recorded import check_may_write
from moldau.streams.spark.versions import Version
from moldau.streams.worker import settings as rows
from moldau.streams.worker.settings import AppSettings

LOG: Final = logging.getLogger("moldau.streams")
_LOOK_S: Final = 30.0
_QUICK: Final = {"default.api.timeout.ms": "10000"}
"""A driver that waits for brokers says so, and stops, soon."""


class Inputs:
    """The inputs of an app. `close` it."""

    def __init__(self, settings: AppSettings, layout: Layout, checkpoint: Checkpoint) -> None:
        self._admin = Admin({**_QUICK, **settings.of("admin")})
        self._admin.start()
        self._layout = layout
        self._checkpoint = checkpoint
        self._repartitions = {each.name for each in layout.plan.repartitions}
        self._own = {*layout.outputs, *self._repartitions}
        self._is_exactly_once = settings.is_exactly_once
        self._purge_s = settings.own[rows.repartition_purge_interval_ms] / 1000
        self._purge_at_s: dict[int, float] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._clock = RealClock()
        self._looking = here().lock()
        self._look_at_s = float("-inf")
        self._ids: Mapping[str, str] = {}

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def ids(self) -> Mapping[str, str]:
        """Return the ids of the topics, by name. Raise StreamsError if a topic was made again, or
        has got more partitions."""
        with self._looking:  # a thread that comes first must not leave the others without ids
            if self._clock.monotonic() >= self._look_at_s:
                self._look()
        return self._ids

    def _look(self) -> None:
        topics = described(self._admin, self._layout.inputs())
        for each in topics:
            known = self._layout.counts[each.name]
            if len(each.partitions) != known:
                raise StreamsError(
                    f"app={self._layout.plan.app}: the topic {each.name} has {known} partitions no "
                    f"more, but {len(each.partitions)}: start the app again{self._condition()}"
                )
        self._ids = ids_of(topics)
        self._checkpoint.check_topics(self._ids)
        self._look_at_s = self._clock.monotonic() + _LOOK_S

    def check_owner(self, program: Program) -> None:
        """Raise StateError if another driver runs the app, as the app's group has recorded. Without
        transactions nothing is recorded."""
        if self._is_exactly_once:
            group, kept = group_of(program.app), self._checkpoint
            found = self._admin.group_offsets(group, self.of(program))
            check_may_write((each.metadata for each in found.values()), kept.id, kept.run)

    def of(self, program: Program) -> list[TopicPartition]:
        """Return the partitions that a program reads."""
        return partitions_of(self._layout, program.inputs)

    def ends(self, program: Program) -> dict[TopicPartition, int]:
        """Return where the committed records end."""
        return self._found(dict.fromkeys(self.of(program), LATEST), is_committed=True)

    def starts(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the logs begin."""
        return self._found(dict.fromkeys(wanted, EARLIEST), is_committed=False)

    def whole_topics(self, program: Program) -> dict[str, WholeTopic]:
        """Return the topics of a program's global tables as they are now. Raise StreamsError if one
        does not exist."""
        tables = {each.topic: each.store.name for each in program.global_tables}
        if not tables:
            return {}
        found = {}
        for topic, each in self._admin.describe_topics(sorted(tables)).items():
            if isinstance(each, KafkaError) and each.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise StreamsError(
                    f"app={self._layout.plan.app} {tables[topic]}: the topic {topic} of the global "
                    "table does not exist: create it, and start the app again"
                )
            if isinstance(each, KafkaError):
                raise each
            found[topic] = self._whole(each)
        return found

    def _whole(self, topic: Topic) -> WholeTopic:
        wanted = [TopicPartition(topic.name, at) for at in range(len(topic.partitions))]
        firsts = self._found(dict.fromkeys(wanted, EARLIEST), is_committed=False)
        ends = self._found(dict.fromkeys(wanted, LATEST), is_committed=True)
        return WholeTopic(
            format_uuid(topic.topic_id),
            tuple(firsts[where] for where in wanted),
            tuple(ends[where] for where in wanted),
        )

    def source_ends(self) -> dict[TopicPartition, int]:
        """Return where those inputs end that the app does not write itself."""
        sources = [each for each in self._layout.inputs() if each not in self._own]
        wanted = partitions_of(self._layout, sources)
        return self._found(dict.fromkeys(wanted, LATEST), is_committed=True)

    def are_settled(self) -> bool:
        """Whether no transaction is open in the topics that the app writes."""
        wanted = {
            TopicPartition(topic.name, each.index): LATEST
            for topic in described(self._admin, sorted(self._own))
            for each in topic.partitions
        }
        return self._found(wanted, is_committed=True) == self._found(wanted, is_committed=False)

    def commit(self, versions: Mapping[int, Version]) -> None:
        """Tell the app's group how far it is, if no transactions do so. An error is logged: only
        the checkpoint says where tasks go on."""
        if self._is_exactly_once:
            return
        offsets = _offsets(versions)
        newer = {at: each for at, each in offsets.items() if self._committed.get(at) != each}
        if not newer:
            return
        group = group_of(self._layout.plan.app)
        try:
            self._admin.alter_group_offsets(group, newer)
        except MoldauError as error:
            LOG.warning("streams: group=%s: its offsets are not committed: %s", group, error)
        else:
            self._committed.update(newer)

    def _condition(self) -> str:
        """Return what starting the app again with more partitions needs beside."""
        derived = [each.name for each in self._layout.plan.repartitions if each.partitions is None]
        if not derived:
            return ""
        return (
            f"; if it then needs more partitions of {', '.join(sorted(derived))}, delete these "
            "topics first and give a new --checkpoint, which begins without state"
        )

    def purge(self, program: Program, versions: Mapping[int, Version]) -> None:
        """Now and then delete what no batch reads again from the app's repartition topics: a batch
        begins with the versions of the one that has counted before. An error is logged."""
        offsets = _offsets(versions)
        before = {at: each for at, each in offsets.items() if at.topic in self._repartitions}
        now_s = self._clock.monotonic()
        if not before or now_s < self._purge_at_s.get(program.index, now_s):
            return
        self._purge_at_s[program.index] = now_s + self._purge_s
        try:
            found = self._admin.delete_records(before).values()
            failed: MoldauError | None = next(
                (each for each in found if isinstance(each, KafkaError)), None
            )
        except MoldauError as error:
            failed = without_frames(error)
        if failed is not None:
            LOG.warning(
                "streams: app=%s: old records of repartition topics are not deleted: %s",
                self._layout.plan.app,
                failed,
            )

    def _found(
        self, wanted: dict[TopicPartition, int], *, is_committed: bool
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        found = self._admin.list_offsets(wanted, is_committed=is_committed)
        return {where: each.offset for where, each in found.items()}


def _offsets(versions: Mapping[int, Version]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, partition): offset
        for partition, version in versions.items()
        for topic, offset in version.offsets.items()
    }


def partitions_of(layout: Layout, topics: Iterable[str]) -> list[TopicPartition]:
    """Return all partitions of topics that the app reads."""
    return [TopicPartition(each, at) for each in topics for at in range(layout.counts[each])]


def described(admin: Admin, names: Sequence[str]) -> list[Topic]:
    """Return those of the topics that exist."""
    found = admin.describe_topics(names).values()
    return [each for each in found if not isinstance(each, MoldauError)]


def ids_of(topics: Iterable[Topic]) -> dict[str, str]:
    """Return the ids of topics by name, as far as brokers know them."""
    return {each.name: format_uuid(each.topic_id) for each in topics if each.topic_id != ZERO_UUID}
