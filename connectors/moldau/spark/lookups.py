"""Look up partitions and offsets in the Kafka cluster, for the driver.

Invariants: the client is opened with the first request and is never pickled. Each call asks the
cluster; no answer is kept from one batch to the next.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from moldau.client import EARLIEST, LATEST, FoundOffset, Topic, TopicPartition
from moldau.client.sync import Admin
from moldau.errors import ConfigError, MoldauError
from moldau.errors.codes import KafkaError
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime.children import Mailbox
from moldau.spark.options import Bound, ReadOptions

T = TypeVar("T")

LOG: Final = logging.getLogger("moldau.spark")
_CONSUMER_SETTINGS: Final = frozenset({"group.id", "isolation.level"})


class Lookups:
    """Looks up partitions and offsets for one read. It pickles as its options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._admin: Admin | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_admin": None}

    def close(self) -> None:
        """Close the connections. The next request opens them again."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _open_admin(self) -> Admin:
        if self._admin is None:
            settings = self._options.settings
            known = {
                name: each for name, each in settings.items() if name not in _CONSUMER_SETTINGS
            }
            admin = Admin(known)
            admin.start()
            self._admin = admin
        return self._admin

    def _request(self, question: Callable[[Admin], T]) -> T:
        """Send a request, and repeat it with a new client when it fails.

        The option `fetchOffset.numRetries` limits the number of tries. Within each try the client
        itself retries for as long as its settings allow."""
        for _ in range(1, self._options.offset_tries):
            try:
                return question(self._open_admin())
            except KafkaError as error:
                LOG.warning("cannot look up offsets, trying again: %s", error)
                self.close()
                Mailbox[None]().take(self._options.offset_interval_ms / 1000)
        return question(self._open_admin())

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that the subscription names at present, sorted."""
        chosen = self._options.subscription
        if chosen.partitions:
            self._check_assigned(chosen.partitions)
            return list(chosen.partitions)
        if chosen.pattern is None:
            return sorted(self._request(lambda admin: admin.partitions(*chosen.topics)))
        pattern = _compile_pattern(chosen.pattern)
        return sorted(
            TopicPartition(topic.name, each.index)
            for topic in self._request(lambda admin: admin.list_topics())
            if pattern.search(topic.name)
            for each in topic.partitions
        )

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise ConfigError at once if a topic has too few partitions. The client would wait."""
        counts = {topic.name: len(topic.partitions) for topic in self._existing_topics(partitions)}
        unknown = [
            f"{where}: the topic has {counts[where.topic]}"
            for where in partitions
            if where.partition >= counts.get(where.topic, where.partition + 1)
        ]
        if unknown:
            raise ConfigError(
                "name partitions that exist", option="assign", unknown="; ".join(unknown)
            )

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset where each log begins."""
        return self._offsets_at_edge(partitions, EARLIEST)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset where each log ends.

        With `read_committed` that is the offset of the first open transaction, if there is one."""
        return self._offsets_at_edge(partitions, LATEST)

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """Return the ids of those topics that exist, by name.

        A broker older than Kafka 2.8 has no topic ids, and the result is empty."""
        return _ids_by_topic(self._existing_topics(partitions))

    def earliest_of_existing(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Return what `earliest` and `topic_ids` return, for those partitions that still exist."""
        wanted = list(partitions)
        topics = self._existing_topics(wanted)
        known = {
            TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions
        }
        return self.earliest(where for where in wanted if where in known), _ids_by_topic(topics)

    def _existing_topics(self, partitions: Iterable[TopicPartition]) -> list[Topic]:
        topics = {where.topic for where in partitions}
        described = self._request(lambda admin: admin.describe_topics(topics))
        return [each for each in described.values() if not isinstance(each, MoldauError)]

    def resolve(
        self, bound: Bound, partitions: Iterable[TopicPartition], *, is_end: bool = False
    ) -> dict[TopicPartition, int]:
        """Translate a bound of the read to an offset for each partition."""
        wanted = list(partitions)
        if bound.is_by_time:
            return self._resolve_times(bound, wanted, is_end=is_end)
        if bound.offsets is not None:
            _check_names_all(bound, bound.offsets, wanted)
        given = bound.offsets or {}
        asked = {where: given.get(where, bound.edge) for where in wanted}
        found = self._list_offsets({where: each for where, each in asked.items() if each < 0})
        return {where: each if each >= 0 else found[where].offset for where, each in asked.items()}

    def _resolve_times(
        self, bound: Bound, wanted: list[TopicPartition], *, is_end: bool
    ) -> dict[TopicPartition, int]:
        if bound.times_ms is not None:
            _check_names_all(bound, bound.times_ms, wanted)
            asked = {where: bound.times_ms[where] for where in wanted}
        else:
            assert bound.time_ms is not None
            asked = dict.fromkeys(wanted, bound.time_ms)
        found = self._list_offsets(asked)
        late = [where for where in wanted if found[where].offset < 0]
        if late and not is_end and self._options.fails_without_match:
            raise ConfigError(
                "some partitions have no record at or after the starting time: choose an earlier "
                "time, or set startingOffsetsByTimestampStrategy=latest",
                option=bound.text,
                partitions=", ".join(map(str, late)),
            )
        ends = self.latest(late)
        return {where: ends.get(where, found[where].offset) for where in wanted}

    def offsets_for_times(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return for each partition the first offset at or after its time in milliseconds.

        The offset is -1 if the partition has no such record."""
        return {where: each.offset for where, each in self._list_offsets(wanted).items()}

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        """Store the offsets for a group, so that tools can show the lag."""
        self._open_admin().alter_group_offsets(group, offsets)

    def _offsets_at_edge(
        self, partitions: Iterable[TopicPartition], edge: int
    ) -> dict[TopicPartition, int]:
        found = self._list_offsets(dict.fromkeys(partitions, edge))
        return {where: each.offset for where, each in found.items()}

    def _list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        if not wanted:
            return {}
        is_committed = self._options.is_read_committed
        return self._request(lambda admin: admin.list_offsets(wanted, is_committed=is_committed))


def _ids_by_topic(topics: Iterable[Topic]) -> dict[str, str]:
    return {each.name: format_uuid(each.topic_id) for each in topics if each.topic_id != ZERO_UUID}


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"use a regular expression: {error}", option="subscribePattern", value=pattern
        ) from None


def _check_names_all(
    bound: Bound, named: Iterable[TopicPartition], wanted: Iterable[TopicPartition]
) -> None:
    """Raise ConfigError unless a bound names exactly the partitions of the read.

    Spark's own source has the same rule."""
    named, wanted = set(named), set(wanted)
    missing, unknown = sorted(wanted - named), sorted(named - wanted)
    if missing or unknown:
        raise ConfigError(
            "name exactly the partitions that the query reads: -2 is the earliest offset, -1 the "
            "latest",
            option=bound.text,
            missing=", ".join(map(str, missing)) or "none",
            unknown=", ".join(map(str, unknown)) or "none",
        )
