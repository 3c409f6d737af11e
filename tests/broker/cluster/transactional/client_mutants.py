"""Bugs of a client's transactions, planted one by one; each with the promises that must break."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from moldau.client.consumer.transactional import TransactionalProgress
from moldau.client.producer.sender import Sender
from moldau.client.producer.transaction_core import TransactionCore
from tests.broker.cluster.transactional.ledger import Promise
from tests.broker.cluster.transactional.scenes import SCENES
from tests.broker.simulation.search import Hunt, Mutant


def commits_before_records_are_there() -> AbstractContextManager[object]:
    """A commit does not wait for the records that are on their way."""

    async def settle(sender: Sender, timeout_s: float | None) -> None:
        return

    return patch.object(Sender, "settle", settle)


def goes_on_after_an_abort() -> AbstractContextManager[object]:
    """The consumer does not read again what belonged to an aborted transaction."""
    return patch.object(TransactionalProgress, "rewind", lambda reading: None)


def commits_what_has_not_begun() -> AbstractContextManager[object]:
    """KAFKA-18401: a commit without records asks the coordinator, which knows of no transaction."""
    return patch.object(TransactionCore, "_end_if_empty", lambda core: None)


CLIENT_MUTANTS: dict[Mutant, Hunt] = {
    commits_before_records_are_there: Hunt(
        range(1, 8), {Promise.COMMITTED_KEPT, Promise.NO_TORN_TRANSACTION, Promise.COPIED_ONCE}
    ),
    goes_on_after_an_abort: Hunt(range(1, 6), {Promise.COPIED_ONCE}),
}
"""Each with seeds that are several times what it took."""

SCENE_CLIENT_MUTANTS: dict[Mutant, Hunt] = {
    commits_what_has_not_begun: Hunt(
        range(1, 3), {Promise.EMPTY_ENDS}, SCENES["transactions_stay_empty"]
    ),
}
"""Found by a scene."""
