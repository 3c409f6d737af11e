"""What the driver asks the cluster: which partitions there are, where they begin and end.

Invariants: a client is opened with the first question and never pickled; every question is a fresh
look, nothing is remembered between two batches.
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
_OF_CONSUMERS: Final = frozenset({"group.id", "isolation.level"})


class Lookups:
    """Answers for one read. Pickles as its options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._admin: Admin | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_admin": None}

    def close(self) -> None:
        """Closes the connections; another question opens them again."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _asked(self) -> Admin:
        if self._admin is None:
            settings = self._options.settings
            known = {name: each for name, each in settings.items() if name not in _OF_CONSUMERS}
            admin = Admin(known)
            admin.start()
            self._admin = admin
        return self._admin

    def _ask(self, question: Callable[[Admin], T]) -> T:
        """The answer. A failed question is asked again, by a new client, as often as the options
        say; within one question the client itself tries again for as long as its settings say."""
        for _ in range(1, self._options.offset_tries):
            try:
                return question(self._asked())
            except KafkaError as error:
                LOG.warning("offsets are asked for again: %s", error)
                self.close()
                Mailbox[None]().take(self._options.offset_interval_ms / 1000)
        return question(self._asked())

    def partitions(self) -> list[TopicPartition]:
        """Those that the subscription names at present, sorted."""
        chosen = self._options.subscription
        if chosen.partitions:
            return list(chosen.partitions)
        if chosen.pattern is None:
            return sorted(self._ask(lambda admin: admin.partitions(*chosen.topics)))
        pattern = _compiled(chosen.pattern)
        return sorted(
            TopicPartition(topic.name, each.index)
            for topic in self._ask(lambda admin: admin.list_topics())
            if pattern.fullmatch(topic.name)
            for each in topic.partitions
        )

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs begin."""
        return self._edges(partitions, EARLIEST)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs end: with read_committed, before the first open transaction."""
        return self._edges(partitions, LATEST)

    def ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """The ids of the topics that there are. None of a broker older than Kafka 2.8."""
        return _ids_of(self._existing(partitions))

    def existing(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """As `earliest` and `ids`, without those of topics or partitions that are gone."""
        wanted = list(partitions)
        topics = self._existing(wanted)
        known = {
            TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions
        }
        return self.earliest(where for where in wanted if where in known), _ids_of(topics)

    def _existing(self, partitions: Iterable[TopicPartition]) -> list[Topic]:
        topics = {where.topic for where in partitions}
        described = self._ask(lambda admin: admin.describe_topics(topics))
        return [each for each in described.values() if not isinstance(each, MoldauError)]

    def resolve(
        self, bound: Bound, partitions: Iterable[TopicPartition], *, is_end: bool = False
    ) -> dict[TopicPartition, int]:
        """The bound as an offset of each partition."""
        wanted = list(partitions)
        if bound.is_by_time:
            return self._by_time(bound, wanted, is_end=is_end)
        if bound.offsets is not None:
            _check_all_named(bound, bound.offsets, wanted)
        given = bound.offsets or {}
        asked = {where: given.get(where, bound.edge) for where in wanted}
        found = self._found({where: each for where, each in asked.items() if each < 0})
        return {where: each if each >= 0 else found[where].offset for where, each in asked.items()}

    def _by_time(
        self, bound: Bound, wanted: list[TopicPartition], *, is_end: bool
    ) -> dict[TopicPartition, int]:
        if bound.times_ms is not None:
            _check_all_named(bound, bound.times_ms, wanted)
            asked = {where: bound.times_ms[where] for where in wanted}
        else:
            assert bound.time_ms is not None
            asked = dict.fromkeys(wanted, bound.time_ms)
        found = self._found(asked)
        late = [where for where in wanted if found[where].offset < 0]
        if late and not is_end and self._options.fails_without_match:
            raise ConfigError(
                "no record is as new: choose an earlier time, or set "
                "startingOffsetsByTimestampStrategy=latest",
                option=bound.text,
                partitions=", ".join(map(str, late)),
            )
        ends = self.latest(late)
        return {where: ends.get(where, found[where].offset) for where in wanted}

    def at_times(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset that is not older than each time (ms); -1 where there is none."""
        return {where: each.offset for where, each in self._found(wanted).items()}

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        """Stores a group's offsets, for tools that show lag."""
        self._asked().alter_group_offsets(group, offsets)

    def _edges(self, partitions: Iterable[TopicPartition], edge: int) -> dict[TopicPartition, int]:
        found = self._found(dict.fromkeys(partitions, edge))
        return {where: each.offset for where, each in found.items()}

    def _found(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        if not wanted:
            return {}
        is_committed = self._options.is_read_committed
        return self._ask(lambda admin: admin.list_offsets(wanted, is_committed=is_committed))


def _ids_of(topics: Iterable[Topic]) -> dict[str, str]:
    return {each.name: format_uuid(each.topic_id) for each in topics if each.topic_id != ZERO_UUID}


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"it is no regular expression: {error}", option="subscribePattern", value=pattern
        ) from None


def _check_all_named(
    bound: Bound, named: Iterable[TopicPartition], wanted: Iterable[TopicPartition]
) -> None:
    """As Spark's own source: offsets that are given are given for all partitions."""
    named, wanted = set(named), set(wanted)
    missing, unknown = sorted(wanted - named), sorted(named - wanted)
    if missing or unknown:
        raise ConfigError(
            "name exactly the partitions that are read: -2 is the earliest, -1 the latest offset",
            option=bound.text,
            missing=", ".join(map(str, missing)) or "none",
            unknown=", ".join(map(str, unknown)) or "none",
        )
