"""Random histories of clients, zombies and moves of the coordinator, with what always holds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import EPOCH_MAX, TransactionStatus
from moldau.errors.codes import KafkaError
from tests.broker.coordinator.transaction.producer_epochs import at_epoch
from tests.broker.coordinator.transaction.table import Table

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["init", "again", "add", "commit", "abort", "mark", "move", "wait"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


class History:
    """A coordinator, and the producers that its clients have got so far."""

    def __init__(self, first_epoch: int) -> None:
        self.at = Table()
        self.producers = [at_epoch(self.at, first_epoch)]
        self.added: dict[Producer, set[tuple[str, int]]] = {}
        """What joined a transaction under each producer, and is not decided."""
        self.decided: dict[Producer, bool] = {}

    def step(self, what: str, number: int) -> None:
        """One request of a client, which may have an old producer; or an event."""
        at = self.at
        producer = self.producers[-1 - number % len(self.producers)]
        partition = ("t", number)
        if what == "init":
            self.producers.append(at.init())
        elif what == "again":
            self.producers.append(at.init(producer=producer))
        elif what == "add":
            at.add(producer, partition)
            self.added.setdefault(producer, set()).add(partition)
        elif what in ("commit", "abort"):
            self.producers.append(at.end(producer, commit=what == "commit"))
        elif what == "mark" and at.effects:
            effect = at.effects.pop(number % len(at.effects))
            at.report(effect, effect.partitions)
        elif what == "move":
            at.reloaded()
        elif what == "wait":
            at.pass_ms(40_000)

    def check_markers(self) -> None:
        """Markers fence the epoch of their transaction, say one thing, and reach all of it."""
        for effect in self.at.effects:
            of = Producer(effect.producer_id, effect.producer_epoch)
            if of in self.decided:
                assert self.decided[of] == effect.is_commit, "each transaction is decided once"
                continue
            self.decided[of] = effect.is_commit
            before = of._replace(epoch=of.epoch - 1)
            assert set(effect.partitions) == self.added.pop(before)

    def check(self) -> None:
        at = self.at
        known = at.known()
        fresh = Table()
        fresh.log = list(at.log)
        assert fresh.reloaded().known() == replace(known, last_epoch=-1), "state == replay(log)"
        assert all(each.epoch < EPOCH_MAX for each in self.producers)
        if known.state is TransactionStatus.ONGOING:
            assert known.partitions == self.added[Producer(known.producer_id, known.producer_epoch)]
        else:
            assert self.added == {} or known.is_ending


@given(st.sampled_from([0, EPOCH_MAX - 3]), STEPS)
@settings(max_examples=150, deadline=None)
def test_every_history_keeps_the_promises(first_epoch: int, steps: list[tuple[str, int]]) -> None:
    history = History(first_epoch)
    for what, number in steps:
        with suppress(KafkaError):
            history.step(what, number)
        history.check_markers()
        history.check()
