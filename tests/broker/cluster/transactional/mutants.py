"""Bugs of transactions in the history of Kafka and of others that storms find, planted one by one;
each with the promises that must break. Those that take a certain order of events are in
`scene_mutants`.

Each is a context in which all brokers have the bug. What is patched is told by its name, so a part
that is renamed fails here and not silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from moldau.broker.api import write_txn_markers
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.transaction import ending
from moldau.broker.coordinator.transaction.state import Transaction
from moldau.broker.log.marker import Marker
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.broker.log.state import LogState
from moldau.broker.server import markers
from tests.broker.cluster.transactional.ledger import Promise
from tests.broker.cluster.transactional.storm import run_transactions
from tests.broker.simulation.search import Hunt, Mutant


def ends_a_later_transaction() -> AbstractContextManager[object]:
    """KIP-890: the epoch of EndTxn is not looked at, so a late one ends the next transaction."""
    return patch.object(ending, "_check_bumped", lambda *_: False)


def forgets_the_next_id() -> AbstractContextManager[object]:
    """KAFKA-18660: at its last epoch a client hears of the epoch of the markers."""
    return patch.object(
        Transaction, "identity_after_end", lambda self: (self.producer_id, self.producer_epoch)
    )


def reads_open_transactions() -> AbstractContextManager[object]:
    """Readers of committed records get everything below the high watermark."""
    return patch.object(LogState, "last_stable_offset", property(lambda self: self.high_watermark))


@contextmanager
def tears_transactions() -> Iterator[None]:
    """The second partition of a transaction gets the other marker."""
    write = write_txn_markers.write_marker

    def torn(node: Any, topic: str, index: int, marker: Marker, on_written: Any) -> None:
        if topic == "t" and index == 1:
            marker = marker._replace(is_commit=not marker.is_commit)
        write(node, topic, index, marker, on_written)

    with (
        patch.object(write_txn_markers, "write_marker", torn),
        patch.object(markers, "write_marker", torn),
    ):
        yield


@contextmanager
def keeps_offsets_of_aborted_transactions() -> Iterator[None]:
    """A group's offsets count although their transaction was aborted."""
    replay_end = Groups.replay_end

    def committed(self: Groups, producer_id: int, *, is_commit: bool) -> None:
        replay_end(self, producer_id, is_commit=True)

    with patch.object(Groups, "replay_end", committed):
        yield


def expires_open_transactions() -> AbstractContextManager[object]:
    """A partition forgets a producer that is idle, with its open transaction."""

    def is_expired(self: ProducerStateEntry, now_ms: int, expiration_ms: int) -> bool:
        return now_ms - self.last_timestamp >= expiration_ms

    return patch.object(ProducerStateEntry, "is_expired", is_expired)


late = partial(run_transactions, lates=0.6, versions=(2,))
few = partial(run_transactions, epochs=True, versions=(2,))
plain = partial(run_transactions, versions=(2,))
expiring = partial(run_transactions, versions=(2,), expiration_ms="500")

MUTANTS: dict[Mutant, Hunt] = {
    ends_a_later_transaction: Hunt(
        range(1, 6),
        {Promise.NO_TORN_TRANSACTION, Promise.COMMITTED_KEPT, Promise.NO_ABORTED_READ},
        late,
    ),
    forgets_the_next_id: Hunt(
        range(1, 6), {Promise.EPOCH_OF_CLIENT, Promise.STABLE_ENDS, Promise.WRITERS_GO_ON}, few
    ),
    reads_open_transactions: Hunt(range(1, 4), {Promise.BELOW_STABLE}, plain),
    tears_transactions: Hunt(range(1, 4), {Promise.ONE_DECISION, Promise.NO_ABORTED_READ}, plain),
    keeps_offsets_of_aborted_transactions: Hunt(range(1, 30), {Promise.OFFSET_OF_COMMITTED}, plain),
    expires_open_transactions: Hunt(
        range(1, 8),
        {Promise.BELOW_STABLE, Promise.NO_ABORTED_READ, Promise.NO_FATAL_ERROR},
        expiring,
    ),
}
"""Each with seeds that are several times what it took."""
