"""The transactions of a source task: its producer, and its offsets beside its records (KIP-618).

Sequence of a start: (1) the worker has the producers of the older tasks fenced; (2) the producer
begins, which fences an older run of this very task and ends its open transaction; (3) the worker
verifies that the task is still its own, and of the newest generation; (4) only now the offsets are
read. `Boundaries` decides where transactions end; this module acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from moldau.client.sync import Producer
from moldau.connect.config.exactly_once import transactional_id
from moldau.connect.errors import ConnectError
from moldau.connect.storage.keys import canonical, dump
from moldau.connect.task.boundaries import Boundaries, Boundary, Ready
from moldau.connect.task.link import Link
from moldau.connect.task.messages import TaskSpec
from moldau.connect.task.settings import whole
from moldau.errors.codes import KafkaError

TIMEOUT_MS: Final = 60_000
RETRY_MS: Final = 500


def boundaries_of(config: Mapping[str, str], worker: Mapping[str, str], now_ms: int) -> Boundaries:
    """Return the boundaries that a connector's config asks for."""
    flush_ms = whole(worker, "offset.flush.interval.ms", 60_000)
    interval_ms = whole(config, "transaction.boundary.interval.ms", flush_ms)
    name = config.get("transaction.boundary", "").strip().lower() or Boundary.POLL.value
    return Boundaries(Boundary(name), interval_ms, now_ms)


def transactional(
    given: Mapping[str, object], spec: TaskSpec, boundaries: Boundaries
) -> dict[str, object]:
    """Return the settings of the producer. A transaction may be open for its interval."""
    timeout_ms = TIMEOUT_MS
    if boundaries.boundary is Boundary.INTERVAL:
        timeout_ms += boundaries.interval_ms
    return {
        "transaction.timeout.ms": str(timeout_ms),
        **given,
        "acks": "all",
        "enable.idempotence": "true",
        "transactional.id": transactional_id(spec.cluster, spec.connector, spec.task),
    }


class WaitingRunner(Protocol):
    """The runner of the task, which waits and obeys the worker meanwhile."""

    def wait_ms(self, ms: int) -> bool: ...

    def report_cause(self, cause: str | None) -> None: ...


class TaskTransactions:
    """The transactions of one task. It belongs to the task's thread."""

    def __init__(self, spec: TaskSpec, link: Link, waits: WaitingRunner, topic: str) -> None:
        self._spec = spec
        self._link = link
        self._waits = waits
        self._topic = topic
        self._keys: dict[bytes, bytes] = {}
        self._producer: Producer
        self._is_open = False

    def start(self, producer: Producer) -> None:
        """Fence what ran before. On return no older run of a task can write any more. Raise
        ConnectError if this run is itself an older one."""
        while (cause := self._link.ask("tasks.fence")) is not None:
            self._waits.report_cause(str(cause))
            if not self._waits.wait_ms(RETRY_MS):
                return
        self._waits.report_cause(None)
        self._producer = producer
        producer.start()
        self.begin()
        self._link.ask("tasks.verify", generation=self._spec.generation)

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True

    def finish(self, end: Ready) -> bool:
        """Do what the boundaries want, and return True. Raise ConnectError if the transaction was
        aborted by the cluster."""
        try:
            if end.aborts:
                self._producer.abort_transaction()
                self._is_open = False
            if end.commits:
                self.begin()
                for partition, offset in end.offsets:
                    self._producer.send(self._topic, dump(offset), key=self._key(partition))
                self._producer.commit_transaction()
                self._is_open = False
        except KafkaError as error:
            raise ConnectError(
                "the transaction of the task was not committed -> nothing is lost: the task reads "
                "again from the last commit when it is restarted",
                error=str(error),
            ) from error
        return True

    def _key(self, partition: dict[str, Any]) -> bytes:
        """Return the key of a source partition: the bytes that are in the topic, if there are."""
        which = canonical(partition)
        if which not in self._keys:
            (found,) = self._link.ask("offsets.keys", partitions=[partition])
            self._keys[which] = str(found).encode()
        return self._keys[which]
