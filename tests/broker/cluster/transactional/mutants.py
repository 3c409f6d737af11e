"""Bugs of transactions in the history of Kafka and of others, planted one by one; each with the
promises that must break.

Each is a context in which all brokers have the bug. What is patched is told by its name, so a part
that is renamed fails here and not silently.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from unittest.mock import patch

from moldau.broker.coordinator.transaction import ending
from moldau.broker.coordinator.transaction.state import Transaction
from moldau.broker.log.log import PartitionLog
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
    return patch.object(
        PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark)
    )


late = partial(run_transactions, lates=0.6, versions=(2,))
few = partial(run_transactions, epochs=True, versions=(2,))
plain = partial(run_transactions, versions=(2,))

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
}
"""Each with seeds that are several times what it took."""
