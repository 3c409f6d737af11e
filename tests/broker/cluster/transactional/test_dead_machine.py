"""A broker without power answers no request: what others have asked it fails as it is fenced."""

from __future__ import annotations

from typing import Final

from tests.broker.cluster.transactional.ledger import End
from tests.broker.cluster.transactional.stage import Stage, scene

ENDS_WITHIN_S: Final = 10.0
"""A third of the time that a request between brokers may take."""


async def a_leader_dies_with_its_machine(at: Stage) -> None:
    """1. Markers go to another broker. 2. Its machine loses its power. 3. The next markers are sent
    by the same connection, which has no end. 4. Another replica leads, and gets them."""
    app = await at.instance("app")
    place = at.partition_of_another(at.coordinator_of(app))
    first = at.begin(app)
    await app.write(first, place, 0)
    await at.end_attempt(app, first, commit=True)

    second = at.begin(app)
    await app.write(second, place, 0)
    leader = at.brokers.leader_of(*place)
    assert leader is not None
    await at.happens(lambda: at.brokers.power_loss(leader))
    began = at.runtime.clock.monotonic()
    await app.end(commit=True)
    at.run.ledger.ended(second, End.COMMITTED)
    await at.until(at.run.is_stable)
    assert at.runtime.clock.monotonic() - began < ENDS_WITHIN_S


def test_a_transaction_ends_soon_after_the_machine_of_a_leader_is_gone() -> None:
    scene(a_leader_dies_with_its_machine, 3)(1)
