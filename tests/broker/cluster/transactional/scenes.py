"""Short stories that provoke the bugs of transactions in Kafka's history and in Redpanda's, each in
a few virtual seconds.

A story says what happens in its order. Without a bug each ends well: everything is read once and
whole, no transaction stays open, and every client got further.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from moldau.client import Producer, TransactionError
from moldau.records import coordinator_partition
from tests.broker.cluster.transactional.instance import KEYED, TOPIC, Fenced, GivenUp, Instance
from tests.broker.cluster.transactional.ledger import Attempt, End, Promise
from tests.broker.cluster.transactional.pipelining import write_pipelined
from tests.broker.cluster.transactional.stage import FIRST, SECOND, Stage, scene
from tests.broker.cluster.transactional.wire import INTERNAL_PARTITIONS, Member
from tests.broker.cluster.transactional.writers import drawn_places
from tests.broker.simulation.promises import demand


async def a_marker_arrives_again(at: Stage) -> None:
    """KAFKA-19999: 1. a transaction is aborted. 2. The next one is open in the same partition, in
    the epoch of that marker. 3. The marker arrives a second time."""
    app = await at.instance("app")
    await _aborted(at, app)
    second = at.begin(app)
    await app.write(second, FIRST, 0)
    await at.run.send_marker(at.runtime, at.run.watch.markers[-1])
    await app.write(second, FIRST, 1)
    await at.end_attempt(app, second, commit=True)


async def a_coordinator_dies_before_it_knows_of_a_marker(at: Stage) -> None:
    """KAFKA-19999: 1. a marker is written. 2. Its coordinator dies before it has the answer. 3. The
    next coordinator writes the marker again, in an epoch that the partition has seen."""
    app = await at.instance("app")
    coordinator = at.coordinator_of(app)
    place = at.partition_of_another(coordinator)
    first = at.begin(app)
    await app.write(first, place, 0)
    ending = asyncio.create_task(app.end(commit=True))

    def die() -> None:
        at.await_event(lambda: at.run.watch.markers)
        at.brokers.kill(coordinator)

    await at.happens(die)
    await ending
    at.run.ledger.ended(first, End.COMMITTED)
    second = at.begin(app)
    await app.write(second, place, 0)
    await app.end(commit=True)
    at.run.ledger.ended(second, End.COMMITTED)


async def a_second_instance_aborts_the_transaction_of_the_first(at: Stage) -> None:
    """KAFKA-19367: InitProducerId aborts an open transaction. One epoch fences its client."""
    first = await at.instance("app")
    open_one = at.begin(first)
    await first.write(open_one, FIRST, 0)
    second = await at.instance("app")
    at.run.ledger.ended(open_one, End.ABORTED)
    with suppress(Fenced, GivenUp):
        await first.write(open_one, FIRST, 1)
    await _committed(at, second)


async def pipelined_transactions_follow_each_other(at: Stage) -> None:
    """The markers of a transaction are still being written when the next one begins, with several
    batches in flight, or is aborted. There is no fault, so there is no error but those that Java's
    producer retries."""

    async def write(app: Instance, random: Random) -> None:
        for _ in range(10):
            attempt = at.begin(app)
            places = drawn_places(random) or [FIRST]
            await write_pipelined(app, attempt, places, random.randint(1, 8), random)
            commit = random.random() < 0.6
            await app.end(commit=commit)
            at.run.ledger.ended(attempt, End.COMMITTED if commit else End.ABORTED)

    apps = [await at.instance(name) for name in ("app", "other", "third")]
    await asyncio.gather(*(write(app, Random(at.runtime.random.random())) for app in apps))


async def transactions_stay_empty(at: Stage) -> None:
    """KAFKA-18401: a client of version 2 commits and aborts without any record."""
    app = await at.instance("app")
    before = app.current
    try:
        await app.end(commit=False)
    except GivenUp as error:
        demand(False, Promise.EMPTY_ENDS, error=str(error))
    demand(app.current != before, Promise.EMPTY_ENDS, producer=before)
    await _committed(at, app)
    servers = at.brokers.bootstrap_servers
    async with Producer(
        runtime=at.runtime, bootstrap_servers=servers, transactional_id="client"
    ) as producer:
        try:
            await producer.begin_transaction()
            await producer.commit_transaction()
        except TransactionError as error:
            demand(False, Promise.EMPTY_ENDS, error=str(error))


async def a_replica_misses_a_marker(at: Stage) -> None:
    """Redpanda PR 16295: 1. a replica has records of a transaction and goes away. 2. They are
    aborted, later transactions are committed, and the log is compacted. 3. The replica comes back,
    gets what is left, and leads."""
    node = at.brokers.running[1].node
    await at.until(lambda: node.image.topics.by_name(KEYED))
    topic = node.image.topics.by_name(KEYED)
    assert topic is not None
    leader, follower, _ = topic.partitions[0].replicas
    app = await at.instance("app")
    first = at.begin(app)
    await app.write(first, (KEYED, 0), 0, "aborted")
    await at.happens(lambda: at.brokers.kill(follower))
    await app.end(commit=False)
    at.run.ledger.ended(first, End.ABORTED)
    for _ in range(4):
        await asyncio.sleep(0.5)
        attempt = at.begin(app)
        await app.write(attempt, (KEYED, 0), 0, "committed")
        await app.end(commit=True)
        at.run.ledger.ended(attempt, End.COMMITTED)
    await asyncio.sleep(2)
    await at.happens(lambda: at.brokers.start(follower))
    await at.until(lambda: at.brokers.isr_of(KEYED) == {1, 2, 3})
    await at.happens(lambda: at.brokers.kill(leader))
    await at.until(lambda: at.brokers.leader_of(KEYED) == follower)


async def a_replica_misses_a_marker_that_is_due(at: Stage) -> None:
    """As before, and markers may be removed at once: they must wait for the replica."""
    await a_replica_misses_a_marker(at)


async def a_reader_begins_in_an_aborted_transaction(at: Stage) -> None:
    """Redpanda PR 7081: each fetch has one batch, so most begin in the middle of a transaction."""
    at.run.fetch_bytes = 1
    app = await at.instance("app")
    first = at.begin(app)
    for number in range(3):
        await app.write(first, FIRST, number)
    await at.end_attempt(app, first, commit=False)
    await _committed(at, app)


async def a_log_of_offsets_is_cleaned_under_an_open_transaction(at: Stage) -> None:
    """Redpanda PR 19931 and 24637: 1. an offset is committed. 2. An open transaction has another
    one for the same partition. 3. The log is compacted. 4. The transaction is aborted, and the
    coordinator starts again."""
    app = await at.instance("app")
    await _commit_offset(at, app)
    open_one = at.begin(app)
    await app.commit_offset(open_one)
    other = await at.instance(_neighbour("app"))
    for _ in range(4):
        await asyncio.sleep(0.5)
        await _commit_offset(at, other)
    await asyncio.sleep(2)
    await _start_again(at)
    await at.end_attempt(app, open_one, commit=False)


async def a_coordinator_of_offsets_starts_again(at: Stage) -> None:
    """Redpanda issue 31483: 1. an open transaction has an offset. 2. The coordinator of the group
    starts again. 3. The transaction is committed."""
    app = await at.instance("app")
    await _commit_offset(at, app)
    open_one = at.begin(app)
    await app.commit_offset(open_one)
    await _start_again(at)
    await at.end_attempt(app, open_one, commit=True)


async def a_request_arrives_after_its_producer_was_forgotten(at: Stage) -> None:
    """Redpanda PR 24852: 1. a partition forgets an idle producer. 2. The producer has a transaction
    open elsewhere. 3. A request of its earlier epoch arrives, on an old connection."""
    app = await at.instance("app")
    first = at.begin(app)
    late = app.request(first, FIRST, 0)
    await app.write(first, FIRST, 0)
    await at.end_attempt(app, first, commit=True)
    known = at.brokers.running[1].node.replicas.partition(*FIRST)
    await at.until(lambda: app.current.id not in known.producers)
    second = at.begin(app)
    await app.write(second, SECOND, 0)
    await at.arrives(late)
    await at.end_attempt(app, second, commit=True)


async def a_request_arrives_in_the_next_transaction(at: Stage) -> None:
    """KIP-890: two requests of an aborted transaction arrive on an old connection: one while the
    next transaction is open in another partition, one when that has ended."""
    app = await at.instance("app")
    first = at.begin(app)
    await app.write(first, SECOND, 0)
    during, after = app.request(first, FIRST, 0), app.request(first, (TOPIC, 2), 0)
    await at.end_attempt(app, first, commit=False)
    second = at.begin(app)
    await app.write(second, SECOND, 0)
    await at.arrives(during)
    await at.end_attempt(app, second, commit=True)
    await at.arrives(after)


async def an_instance_continues_after_it_was_replaced(at: Stage) -> None:
    """KIP-360: an instance asks for its next epoch, and another one has begun since."""
    first = await at.instance("app")
    second = await at.instance("app")
    with suppress(Fenced):
        await first.init()
    await _committed(at, second)


async def a_member_commits_after_it_was_replaced(at: Stage) -> None:
    """KIP-447: 1. a member of a group stands still, and its session ends. 2. Another one commits.
    3. The first one wakes up and commits what it read before, with another transactional id."""
    zombie = await at.instance("zombie", is_judged=False)
    old = await zombie.stay("app", Member("old", 0))
    app = await at.instance("app")
    await _commit_offset(at, app)
    new = await app.stay("app", Member("new", 0))
    for _ in range(5):  # longer than a session
        await asyncio.sleep(0.4)
        new = await app.stay("app", new)
    second = at.begin(app)
    await app.commit_offset(second, member=new)
    await at.end_attempt(app, second, commit=True)
    late = at.begin(zombie)
    is_refused = False
    try:
        await zombie.commit_offset(late, "app", old)
    except GivenUp:
        is_refused = True
    await at.end_attempt(zombie, late, commit=not is_refused)


async def a_partition_counts_its_markers(at: Stage) -> None:
    """KAFKA-9144: 1. a transaction has no record for so long that its producer would be forgotten,
    and is committed. 2. A marker of an earlier epoch arrives, from an earlier coordinator."""
    app = await at.instance("app")
    await _aborted(at, app)
    old = at.run.watch.markers[-1]
    second = at.begin(app)
    await app.write(second, FIRST, 0)
    await asyncio.sleep(3)
    await at.end_attempt(app, second, commit=True)
    await asyncio.sleep(0.8)
    await at.run.send_marker(at.runtime, old)


async def _aborted(at: Stage, app: Instance) -> None:
    attempt = at.begin(app)
    await app.write(attempt, FIRST, 0)
    await at.end_attempt(app, attempt, commit=False)


async def _committed(at: Stage, app: Instance) -> Attempt:
    attempt = at.begin(app)
    await app.write(attempt, FIRST, 0)
    await at.end_attempt(app, attempt, commit=True)
    return attempt


async def _commit_offset(at: Stage, app: Instance) -> None:
    attempt = at.begin(app)
    await app.commit_offset(attempt)
    await app.end(commit=True)
    at.run.ledger.ended(attempt, End.COMMITTED)


async def _start_again(at: Stage) -> None:
    await at.happens(lambda: at.brokers.kill(1))
    await at.happens(lambda: at.brokers.start(1))
    await at.until(lambda: 1 in at.brokers.up)


def _neighbour(group: str) -> str:
    """A group with its offsets in the same partition."""
    index = coordinator_partition(group, INTERNAL_PARTITIONS)
    names = (f"{group}-{number}" for number in range(100))
    return next(each for each in names if coordinator_partition(each, INTERNAL_PARTITIONS) == index)


SCENES: dict[str, Callable[[int], None]] = {
    each.__name__: each
    for each in (
        scene(a_marker_arrives_again),
        scene(a_coordinator_dies_before_it_knows_of_a_marker, 3),
        scene(a_second_instance_aborts_the_transaction_of_the_first),
        scene(pipelined_transactions_follow_each_other, 3),
        scene(transactions_stay_empty),
        scene(a_replica_misses_a_marker, 3),
        scene(a_replica_misses_a_marker_that_is_due, 3, delete_retention_ms="0"),
        scene(a_reader_begins_in_an_aborted_transaction),
        scene(a_log_of_offsets_is_cleaned_under_an_open_transaction, log_roll_ms="300"),
        scene(a_coordinator_of_offsets_starts_again),
        scene(a_request_arrives_after_its_producer_was_forgotten, producer_id_expiration_ms="1000"),
        scene(a_request_arrives_in_the_next_transaction),
        scene(an_instance_continues_after_it_was_replaced),
        scene(a_member_commits_after_it_was_replaced),
        scene(a_partition_counts_its_markers, producer_id_expiration_ms="2000"),
    )
}
"""By name."""
