"""The inputs of an app on the cluster: where their logs begin and end. For the driver's threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.client import EARLIEST, LATEST, Topic, TopicPartition
from moldau.client.sync import Admin
from moldau.errors import MoldauError
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime.real import RealClock
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.spark.checkpoint import Checkpoint

_LOOK_S: Final = 30.0


class Inputs:
    """The inputs of an app. `close` it."""

    def __init__(self, settings: Mapping[str, str], layout: Layout, checkpoint: Checkpoint) -> None:
        self._admin = Admin(settings)
        self._admin.start()
        self._layout = layout
        self._checkpoint = checkpoint
        self._own = {*layout.outputs, *(each.name for each in layout.plan.repartitions)}
        self._clock = RealClock()
        self._look_at_s = float("-inf")
        self._ids: Mapping[str, str] = {}

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def ids(self) -> Mapping[str, str]:
        """Return the ids of the topics, by name. Raise StreamsError if a topic was made again, or
        has got more partitions."""
        if self._clock.monotonic() < self._look_at_s:
            return self._ids
        self._look_at_s = self._clock.monotonic() + _LOOK_S
        topics = self._described(self._layout.inputs())
        for each in topics:
            known = self._layout.counts[each.name]
            if len(each.partitions) != known:
                raise StreamsError(
                    f"app={self._layout.plan.app}: the topic {each.name} has {known} partitions no "
                    f"more, but {len(each.partitions)}: start the app again"
                )
        self._ids = {
            each.name: format_uuid(each.topic_id) for each in topics if each.topic_id != ZERO_UUID
        }
        self._checkpoint.check_topics(self._ids)
        return self._ids

    def of(self, program: Program) -> list[TopicPartition]:
        """Return the partitions that a program reads."""
        counts = self._layout.counts
        return [TopicPartition(each, at) for each in program.inputs for at in range(counts[each])]

    def ends(self, program: Program) -> dict[TopicPartition, int]:
        """Return where the committed records end."""
        return self._found(dict.fromkeys(self.of(program), LATEST), is_committed=True)

    def starts(
        self, wanted: Iterable[TopicPartition], *, is_latest: bool
    ) -> dict[TopicPartition, int]:
        """Return where the logs begin, or end."""
        edge = LATEST if is_latest else EARLIEST
        return self._found(dict.fromkeys(wanted, edge), is_committed=is_latest)

    def source_ends(self) -> dict[TopicPartition, int]:
        """Return where those inputs end that the app does not write itself."""
        wanted = [where for where in self._all() if where.topic not in self._own]
        return self._found(dict.fromkeys(wanted, LATEST), is_committed=True)

    def are_settled(self) -> bool:
        """Whether no transaction is open in the topics that the app writes."""
        wanted = {
            TopicPartition(topic.name, each.index): LATEST
            for topic in self._described(sorted(self._own))
            for each in topic.partitions
        }
        return self._found(wanted, is_committed=True) == self._found(wanted, is_committed=False)

    def _described(self, names: Sequence[str]) -> list[Topic]:
        found = self._admin.describe_topics(names).values()
        return [each for each in found if not isinstance(each, MoldauError)]

    def _all(self) -> list[TopicPartition]:
        return [where for program in self._layout.plan.programs for where in self.of(program)]

    def _found(
        self, wanted: dict[TopicPartition, int], *, is_committed: bool
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        found = self._admin.list_offsets(wanted, is_committed=is_committed)
        return {where: each.offset for where, each in found.items()}
