"""The topics that a producer writes to: learned when something is first sent there, kept up to
date, forgotten when idle. A part of `Producer`.

Invariants: a topic in `_usual` is in `_topics` too; records go the short way there. Metadata is
asked for no topic that nobody has named for `metadata.max.idle.ms`, whether it was ever found or
not: to ask for it may make it.
"""

from __future__ import annotations

from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.buffer import Options
from moldau.client.producer.metrics import METADATA_WAIT, ProducerMetrics
from moldau.client.producer.partitioner import Loads, Partitioner, RecordPartitioner
from moldau.client.producer.pipeline import Pipeline
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.sender import Sender
from moldau.client.producer.topic import OutgoingTopic
from moldau.client.settings import producer as own_rows
from moldau.client.settings.arguments import name_of
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.backoff import may_work_later
from moldau.link.cluster import Cluster
from moldau.link.lifetime import ClientClosed
from moldau.link.metadata import TopicPartition
from moldau.runtime import Clock, Runtime


class ProducerTopics:
    """What a producer knows of topics."""

    settings: Settings
    _accumulator: Accumulator
    _clock: Clock
    _cluster: Cluster
    _ignores_keys: bool
    _metadata_at: float
    _metrics: ProducerMetrics
    _options: Options
    _partitioner: RecordPartitioner | None
    _pipeline: Pipeline
    _runtime: Runtime
    _sender: Sender
    _sought: dict[str, float]
    """What was asked for in vain, and when last."""
    _topics: dict[str, OutgoingTopic]
    _usual: dict[str, OutgoingTopic]

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions that the topic has now; KafkaError if there is no such topic within
        `max.block.ms`."""
        self._cluster.check_loop()
        known = await self._learn(topic)
        return [queue.where for queue in known.queues[: known.count]]

    @property
    def blind_for(self) -> KafkaError | None:
        """Why nothing is heard of topics at present: what asking a broker failed with last. None
        when one has answered."""
        return self._cluster.blind_for

    async def _learn(
        self, name: str, partition: int | None = None, until: float | None = None
    ) -> OutgoingTopic:
        """The topic, with that partition if it has come into being lately. `until` is the time of
        the loop at which it fails."""
        name_of(name, "topic")
        self._sender.check_open()
        until = self._sender.patience() if until is None else until
        start_ns = self._clock.monotonic_ns()
        try:
            found = await self._cluster.topic(
                name, partition=partition, timeout_s=self._sender.left_s(until)
            )
        except ClientClosed:
            raise
        except KafkaError as error:
            context = {"topic": name, **error.context}
            if may_work_later(error):  # else it was not waited for
                context["setting"] = "max.block.ms"
            raise KafkaError(error.code, error.reason, **context) from error
        finally:
            self._metrics.spent(METADATA_WAIT, start_ns)
            self._sought[name] = self._clock.monotonic()
        del self._sought[name]
        self._cluster.watch([name])
        known = self._topics.get(name)
        if known is None:
            known = OutgoingTopic(found, self._accumulator)
            minds_stuck = self.settings[own_rows.partitioner_availability_timeout_ms] > 0
            known.choose_by(
                Partitioner(
                    found,
                    max(1, self._options.batch_bytes),
                    self._runtime.random,
                    Loads(known.waiting, self._is_stuck if minds_stuck else None),
                    is_adaptive=self.settings[own_rows.partitioner_adaptive],
                )
            )
            self._topics[name] = known
            if self._pipeline.is_empty and self._partitioner is None and not self._ignores_keys:
                self._usual[name] = known
        elif known.count != len(found.partitions):
            known.update(found)
        known.used_at = self._clock.monotonic()
        return known

    def _taken(self, topic: str, partition: int | None) -> OutgoingTopic | None:
        """The topic if it is known, with that partition. To be asked for again after each wait: an
        idle one is forgotten."""
        known = self._topics.get(topic)
        if known is None or (partition or 0) >= known.count:
            return None
        known.used_at = self._clock.monotonic()
        return known

    def _choose(
        self, known: OutgoingTopic, key: bytes | None, partition: int | None
    ) -> PartitionQueue:
        if partition is None:
            if key is None or self._ignores_keys:
                return known.sticky
            partition = known.partitioner.of_key(key)
        elif not 0 <= partition < known.count:
            self._cluster.metadata.check(TopicPartition(known.name, partition))
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=known.name, partition=partition
            )
        return known.queues[partition]

    def _filled(self, queue: PartitionQueue, size_bytes: int) -> None:
        known = self._topics.get(queue.where.topic)
        if known is not None:
            known.filled(queue, size_bytes)

    def _is_stuck(self, node_id: int) -> bool:
        after_ms = self.settings[own_rows.partitioner_availability_timeout_ms]
        now = self._clock.monotonic()
        return self._accumulator.is_stuck(node_id, now, after_ms / 1000)

    def _metadata_came(self) -> None:
        self._metadata_at = self._clock.monotonic()
        idle_since = self._metadata_at - self.settings[own_rows.metadata_max_idle_ms] / 1000
        for known in list(self._topics.values()):
            found = self._cluster.metadata.topics.get(known.name)
            is_idle = known.used_at < idle_since and not self._sender.waiting
            if is_idle and all(queue.is_empty for queue in known.queues):
                known.forget()
                del self._topics[known.name]
                self._usual.pop(known.name, None)
                self._cluster.unwatch([known.name])
            elif found is not None:
                known.update(found)
        for name, sought_at in list(self._sought.items()):
            if sought_at < idle_since:
                del self._sought[name]
                self._cluster.unwatch({name} - self._topics.keys())
        self._sender.drain_soon()
