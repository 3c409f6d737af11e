"""Which stores can be divided anew when the inputs of an app get another number of partitions.

A row goes to another partition by the key of the records that it was made from, as the partitioner
of its inputs places that key. So a store can be divided whose rows are kept by that key, unless a
function of the app chooses the partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.joins import StreamJoin
from moldau.streams.plan.partitioners import Partitioning
from moldau.streams.plan.placement import placements
from moldau.streams.plan.plan import Plan
from moldau.streams.state.spec import StoreSpec

_BY_RECORD_KEY: Final = (
    op.Aggregate, op.ToTable, op.TableAggregate, op.WindowAggregate, op.SessionAggregate,
    op.SlidingAggregate, op.CountAggregate, StreamJoin,
)  # fmt: skip


def divided_by(plan: Plan, store: StoreSpec, operation: op.Operation) -> Partitioning | str:
    """Return how the keys of the store of an operation are placed; a text says why the rows cannot
    be divided."""
    if store.source_topic is not None:
        return "its rows lie in the partitions of its input: write that topic anew"
    if not isinstance(operation, _BY_RECORD_KEY):
        return "its rows are not kept by the key of a record"
    free = {topic.name for topic in plan.repartitions if topic.is_free}
    feeding = {name: topics for program in plan.programs for name, topics in program.feeding}
    if free.intersection(feeding.get(store.name, ())):
        return "a function chooses the partitions of its records"
    return placements(plan)[store.name].partitioning


def undivided(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the stores that allow no other number of partitions, and why."""
    for program in plan.programs:
        for step in program.steps:
            for store in stores_of(step):
                why = divided_by(plan, store, step.operation)
                if isinstance(why, str):
                    yield store.name, why
