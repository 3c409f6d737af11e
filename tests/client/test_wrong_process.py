"""Clients on asyncio in a forked process, whose parent's event loop they have a copy of."""

from __future__ import annotations

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker
from tests.client.sync.programs import WITHOUT_UVLOOP, run
from tests.client.sync.topic_contents import read

FORKS = """\
import asyncio, gc, os, sys
from moldau.client import Admin, Consumer, Producer, ShareConsumer, WrongProcess

servers, topic = sys.argv[1:3]

async def begin():
    clients = (
        Producer(bootstrap_servers=servers),
        Consumer(bootstrap_servers=servers, group_id=topic),
        Admin(bootstrap_servers=servers),
        ShareConsumer(topic, group=f"{topic}-queue", bootstrap_servers=servers),
    )
    for each in clients:
        await each.start()
    producer, consumer, *_ = clients
    await producer.send_and_wait(topic, b"before")
    await consumer.subscribe(topic)
    await consumer.poll(0.1)
    return clients

async def use(producer, consumer, admin, queue):
    for call in (
        lambda: producer.send(topic, b"never"),
        lambda: producer.send_many(topic, [b"never"]),
        producer.flush,
        producer.start,
        producer.aclose,
        lambda: consumer.poll(1),
        consumer.commit,
        admin.list_topics,
        lambda: queue.poll(1),
    ):
        try:
            await asyncio.wait_for(call(), 20)
        except WrongProcess:
            continue
        os._exit(1)
    async with Producer(bootstrap_servers=servers) as mine:
        await mine.send_and_wait(topic, b"of the child")

async def end(clients):
    await clients[0].send_and_wait(topic, b"after")
    for each in clients:
        await each.aclose()

kind = asyncio
if len(sys.argv) > 3:
    import uvloop as kind
loop = kind.new_event_loop()
clients = loop.run_until_complete(begin())
child = os.fork()
if not child:
    loop.run_until_complete(use(*clients))
    del clients
    gc.collect()
    sys.stderr.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
loop.run_until_complete(end(clients))
loop.close()
"""


@pytest.mark.deep
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_child_is_told_to_make_clients_of_its_own_and_the_parent_loses_nothing(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, loop: str
) -> None:
    """Two producers with one sequence on one connection would lose records as repeated ones."""
    servers = moldau_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(NewTopic(moldau_topic))
    if loop == "uvloop":
        pytest.importorskip("uvloop")
        assert run(FORKS, servers, moldau_topic, loop) == ""
    else:
        assert run(WITHOUT_UVLOOP + FORKS, servers, moldau_topic) == ""

    assert read(servers, moldau_topic) == {0: [b"before", b"of the child", b"after"]}
