"""Ends the transactions that a worker which is gone has left open in the changelogs of its tasks.

Without that, the worker that takes the tasks over would wait until the brokers abort them, after
`transaction.timeout.ms`: nothing behind an open transaction can be read.

Invariant: only a transaction is ended that could not be committed any more. It is open (not about
to commit), one of its partitions is a changelog of a task that the group has given to this worker,
and its id is that of a worker of the app: the group refuses the offsets of that worker. If it
lives, as after a pause, it begins again from its last commit with a new producer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from moldau.client import Admin, KafkaError, TopicPartition, TransactionAdmin
from moldau.streams.worker.committer import LOG

_OPEN: Final = "Ongoing"


async def end_abandoned(
    admin: Admin, app: str, own_id: str, changelogs: Collection[TopicPartition]
) -> list[str]:
    """Abort what other workers of the app have left open in these partitions, and return their
    transactional ids. `own_id` is that of this worker."""
    transactions = TransactionAdmin(admin)
    producers = await transactions.producers(changelogs)
    ids = {
        each.producer_id
        for found in producers.values()
        if not isinstance(found, KafkaError)
        for each in found
        if each.transaction_start_offset >= 0
    }
    if not ids:
        return []
    listed = await transactions.list_all(states=[_OPEN], producer_ids=ids)
    names = [
        each.transactional_id
        for each in listed
        if each.transactional_id.startswith(f"{app}-") and each.transactional_id != own_id
    ]
    described = await transactions.describe(names) if names else {}
    ended = []
    for name, each in described.items():
        if isinstance(each, KafkaError) or each.state != _OPEN:
            continue
        if not set(each.partitions).isdisjoint(changelogs):
            LOG.info("streams: worker %s is gone: its open transaction is aborted", name)
            await transactions.fence(name)
            ended.append(name)
    return ended
