"""Ends of programs, forks, and configurations that travel: each in a process of its own."""

from __future__ import annotations

import asyncio
import pickle
import socket
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import moldau.client
from moldau.client import NewTopic
from moldau.client.base.configuration import _pickled, _Shared
from moldau.client.serdes import AvroDeserializer, AvroSerializer, SchemaRegistry
from moldau.client.settings import producer as rows
from moldau.client.sync import Admin, Configuration, Consumer, Producer
from moldau.errors import ConfigError
from moldau.testing import SyncEmbeddedBroker
from tests.client.serdes.served_registry import ServedRegistry, served_registry
from tests.client.sync.programs import WITHOUT_UVLOOP, begin, run, run_any
from tests.client.sync.topic_contents import read
from tests.programs import FORKING


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


@pytest.fixture
def topic(bootstrap: str, moldau_topic: str) -> str:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(moldau_topic))
    return moldau_topic


@pytest.fixture
def registry() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


def copied(configuration: Configuration[Any]) -> Configuration[Any]:
    """As it arrives elsewhere."""
    again = pickle.loads(pickle.dumps(configuration))  # noqa: S301
    assert isinstance(again, Configuration)
    return again


SENDS_AND_ENDS = """\
import sys
from moldau.client.sync import Consumer, Producer

producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
producer.start()
consumer = Consumer(bootstrap_servers=sys.argv[1], group_id=sys.argv[2])
consumer.start()
for number in range(1000):
    producer.send(sys.argv[2], b"%d" % number)
"""


@pytest.mark.parametrize("first", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("last", ["", "sys.exit(0)"])
def test_a_program_that_ends_without_closing_delivers_first(
    bootstrap: str, topic: str, first: str, last: str
) -> None:
    by_name = bootstrap.replace("127.0.0.1", "localhost")

    run(first + SENDS_AND_ENDS + last, by_name, topic)

    assert read(bootstrap, topic) == {0: [b"%d" % number for number in range(1000)]}


def test_at_the_end_a_broker_that_went_can_be_found_by_its_name_again(
    tmp_path: Path, moldau_topic: str
) -> None:
    program = """\
    import sys
    from moldau.client.sync import Producer

    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=0)
    producer.start()
    producer.send(sys.argv[2], b"first").result(30)
    print("sent", flush=True)
    sys.stdin.readline()
    producer.send(sys.argv[2], b"last")
    print("the end", flush=True)
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    by_name = f"localhost:{port}"
    named = {"advertised.listeners": f"PLAINTEXT://{by_name}"}
    with SyncEmbeddedBroker(named, directory=str(tmp_path), port=port) as broker:
        running = begin(WITHOUT_UVLOOP + textwrap.dedent(program), by_name, moldau_topic)
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stdout.readline() == "sent\n"
        broker.stop()
        print(file=running.stdin, flush=True)
        assert running.stdout.readline() == "the end\n"
        broker.start()
        assert running.communicate(timeout=120) == ("", "")

        assert read(broker.bootstrap_servers, moldau_topic) == {0: [b"first", b"last"]}


def test_threads_and_exit_functions_may_send_till_they_end(bootstrap: str, topic: str) -> None:
    program = """\
    import atexit, sys, threading
    from moldau.client.sync import Producer

    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
    producer.start()

    def work():
        threading.main_thread().join()
        producer.send(sys.argv[2], b"from a thread that outlives the main one")

    def at_exit():
        producer.send(sys.argv[2], b"from an exit function")

    atexit.register(at_exit)
    threading.Thread(target=work).start()
    producer.send(sys.argv[2], b"from the main thread")
    """

    run(program, bootstrap, topic)

    assert read(bootstrap, topic) == {
        0: [
            b"from the main thread",
            b"from a thread that outlives the main one",
            b"from an exit function",
        ]
    }


def test_what_cannot_be_delivered_at_the_end_is_told_and_threads_are_waited_for(
    moldau_topic: str,
) -> None:
    program = """\
    import sys, threading
    from moldau.client.sync import Producer

    producer = Producer(
        bootstrap_servers=sys.argv[1], delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0
    )
    producer.start()
    producer.send(sys.argv[2], b"delivered").result(30)

    def work():
        threading.main_thread().join()
        print("the thread has ended", flush=True)

    threading.Thread(target=work).start()
    print("the broker may go", flush=True)
    sys.stdin.read()
    producer.send(sys.argv[2], b"not delivered")
    """
    with SyncEmbeddedBroker() as broker:
        running = begin(textwrap.dedent(program), broker.bootstrap_servers, moldau_topic)
        assert running.stdout is not None
        assert running.stdout.readline() == "the broker may go\n"
        broker.stop()
        out, told = running.communicate(timeout=120)

    assert out == "the thread has ended\n"
    assert "not delivered within delivery.timeout.ms" in told
    assert moldau_topic in told


def test_a_callback_that_ends_the_thread_leaves_nobody_waiting_for_ever(
    bootstrap: str, topic: str
) -> None:
    program = """\
    import sys, threading
    from moldau.client.sync import Producer
    from moldau.errors.codes import KafkaError

    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
    producer.start()
    producer.send(sys.argv[2], b"x", on_delivery=lambda sent, error: sys.exit(3))
    threading.Thread(target=producer.flush).start()
    while producer._is_served():
        pass
    later = producer.send(sys.argv[2], b"y", partition=0)
    for wait in (producer.flush, later.result, lambda: producer.send("another", b"")):
        try:
            wait()
        except KafkaError as error:
            print(error.reason)
    """
    told = run_any(program, bootstrap, topic).stdout.splitlines()
    assert len(told) == 3
    assert all("thread has ended" in each for each in told)


@pytest.mark.parametrize("kind", ["Admin", "Producer"])
def test_an_exit_function_may_close_a_client(bootstrap: str, kind: str) -> None:
    program = """\
    import atexit, sys
    from moldau.client import sync

    client = getattr(sync, sys.argv[2])(bootstrap_servers=sys.argv[1])
    client.start()
    atexit.register(client.close)
    """
    assert run(program, bootstrap, kind) == ""


FORKS = """\
import gc, os, sys
from moldau.client.sync import Producer, WrongProcess

producer = Producer(bootstrap_servers=sys.argv[1])
producer.start()
before = producer.send(sys.argv[2], b"before the fork")
before.result(30)
waiting = producer.send(sys.argv[2], b"as well")

child = os.fork()
if not child:
    for use in (
        lambda: producer.send(sys.argv[2], b"never"),
        lambda: producer.send_many(sys.argv[2], [b"never"]),
        producer.flush,
        waiting.result,
        lambda: waiting.add_done_callback(print),
    ):
        try:
            use()
        except WrongProcess as error:
            assert "configuration" in error.reason
        else:
            os._exit(1)
    producer.close()
    with Producer.from_config(producer.configuration) as mine:
        mine.send(sys.argv[2], b"from the child").result(30)
    del producer
    gc.collect()
    sys.exit(0)  # runs exit functions, which are not to touch the parent's clients

assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
waiting.result(30)
producer.send(sys.argv[2], b"after the fork").result(30)
producer.close()
"""


@pytest.mark.parametrize("first", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_after_a_fork_the_child_is_told_to_make_another_and_the_parent_goes_on(
    bootstrap: str, topic: str, first: str
) -> None:
    run(first + FORKS, bootstrap, topic)

    values = read(bootstrap, topic)[0]
    assert sorted(values) == sorted(
        [b"before the fork", b"as well", b"from the child", b"after the fork"]
    )
    assert values[-1] == b"after the fork"


FORKS_WHILE_STARTING = """\
import os, signal, sys, threading
from moldau.client.sync import Admin, WrongProcess

starting, go_on = threading.Event(), threading.Event()
begins = Admin._begin

async def begins_late(self, runtime):
    starting.set()
    go_on.wait()
    await begins(self, runtime)

Admin._begin = begins_late
starts, closed = Admin(bootstrap_servers=sys.argv[1]), Admin(bootstrap_servers=sys.argv[1])
closed.close()
thread = threading.Thread(target=starts.start)
thread.start()
starting.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    Admin._begin = begins
    with starts:
        print(starts.list_topics() is not None, starts.is_over, closed.is_over, flush=True)
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
thread.join()
starts.close()
"""


def test_a_child_may_start_what_another_thread_of_its_parent_was_starting(bootstrap: str) -> None:
    by_name = bootstrap.replace("127.0.0.1", "localhost")
    assert run(FORKS_WHILE_STARTING, by_name) == "True False True\n0\n"


def test_a_pool_of_forked_processes_shares_one_producer_a_process(
    bootstrap: str, topic: str
) -> None:
    program = """\
    import multiprocessing, os, sys
    from moldau.client.sync import Producer

    def work(configuration, number):
        producer = configuration.shared()
        assert configuration.shared() is producer
        return os.getpid(), producer.send(sys.argv[2], b"%d" % number).result(30).offset

    if __name__ == "__main__":
        here = Producer(bootstrap_servers=sys.argv[1]).configuration
        here.shared().send(sys.argv[2], b"0").result(30)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.starmap(work, [(here, number) for number in range(1, 9)])
        print(len({offset for _, offset in found}), all(pid != os.getpid() for pid, _ in found))
    """

    assert run(program, bootstrap, topic) == "8 True\n"
    assert sorted(read(bootstrap, topic)[0]) == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_of_multiprocessing_that_ends_without_closing_delivers_first(
    bootstrap: str, tmp_path: Path, topic: str, method: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""\
        import multiprocessing, sys
        from moldau.client.sync import Producer

        def work(configuration, topic):
            producer = configuration.open()
            producer.start()
            producer.send(topic, b"from the child")

        if __name__ == "__main__":
            here = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
            here.start()
            here.send(sys.argv[2], b"from the parent")
            context = multiprocessing.get_context(sys.argv[3])
            child = context.Process(target=work, args=(here.configuration, sys.argv[2]))
            child.start()
            child.join()
        """)
    )
    done = subprocess.run(  # noqa: S603
        [*FORKING, str(program), bootstrap, topic, method],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert read(bootstrap, topic) == {0: [b"from the child", b"from the parent"]}


def test_a_configuration_pickles_and_makes_clients_where_it_arrives(
    bootstrap: str, topic: str
) -> None:
    configuration = Producer(
        {"bootstrap.servers": bootstrap}, linger_ms=1, value_serializer="string"
    ).configuration
    program = """\
    import pickle, sys

    configuration = pickle.loads(bytes.fromhex(sys.argv[1]))
    with configuration.open() as producer:
        print(producer.send(sys.argv[2], "text").result(30).offset)
    """

    assert run(program, pickle.dumps(configuration).hex(), topic) == "0\n"

    again = copied(configuration)
    assert again == configuration
    with Producer.from_config(again) as producer:
        assert producer.settings[rows.linger_ms] == 1
        assert producer.send(topic, "here").result(30).offset == 1
    assert read(bootstrap, topic) == {0: [b"text", b"here"]}


def test_a_client_does_not_pickle_and_says_what_does(bootstrap: str) -> None:
    for client in (
        Producer(bootstrap_servers=bootstrap),
        Consumer(bootstrap_servers=bootstrap),
        Admin(bootstrap_servers=bootstrap),
    ):
        with pytest.raises(TypeError, match="pickle its `configuration`"):
            pickle.dumps(client)
        assert copied(client.configuration) == client.configuration


def test_a_configuration_shows_no_settings_and_holds_only_good_ones() -> None:
    configuration = Producer(bootstrap_servers="localhost:1").configuration
    assert isinstance(configuration, Configuration)
    assert "localhost" not in repr(configuration)
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        Producer(bootstrap_servers="localhost:1", linger_ms=-1)


def test_equal_configurations_share_a_client_whichever_objects_they_are_made_of(
    bootstrap: str,
) -> None:
    acks = "".join(("a", "ll"))
    one = Producer({"client.id": acks, "acks": acks}, bootstrap_servers=bootstrap).configuration
    two = Producer(
        {"acks": "all", "client.id": "".join(("a", "ll"))}, bootstrap_servers="".join(bootstrap)
    ).configuration
    other = Producer({"client.id": "b", "acks": "all"}, bootstrap_servers=bootstrap).configuration
    client = one.shared()
    try:
        assert two == one
        assert {one: "a key"}[two] == "a key"
        assert two.shared() is client
        assert pickle.loads(pickle.dumps(two)).shared() is client  # noqa: S301 - our own
        with other.shared() as another:
            assert another is not client
    finally:
        client.close()


def test_what_contains_itself_is_a_key_too() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert _pickled(ring) == _pickled(ring) != _pickled([])


def test_a_shared_client_that_was_closed_is_made_anew_and_consumers_are_not_shared(
    bootstrap: str, topic: str
) -> None:
    configuration = Producer(bootstrap_servers=bootstrap).configuration
    first = configuration.shared()
    assert configuration.shared() is first
    first.close()
    second = configuration.shared()
    assert second is not first
    assert second.send(topic, b"x").result(30).offset == 0
    second.close()
    with pytest.raises(TypeError, match="belongs to one thread"):
        Consumer(bootstrap_servers=bootstrap).configuration.shared()


def test_threads_that_ask_for_a_shared_client_at_once_get_the_same() -> None:
    """Also where the one before was closed, and while the new one is being made."""
    shared, made, is_making, go_on = _Shared(), [], threading.Event(), threading.Event()

    def make() -> Producer:
        is_making.set()
        go_on.wait()
        made.append(Producer(bootstrap_servers="h:1"))
        return made[-1]

    closed = shared.get("key", lambda: Producer(bootstrap_servers="h:1"))
    closed.close()
    with ThreadPoolExecutor(2) as threads:
        found = [threads.submit(shared.get, "key", make)]
        is_making.wait()
        found.append(threads.submit(shared.get, "key", make))
        go_on.set()
        assert [each.result() for each in found] == made * 2


def test_a_child_may_ask_for_a_shared_client_while_another_thread_of_its_parent_does() -> None:
    shared = _Shared()
    with shared._lock:
        shared.forked()
        assert shared.get("key", lambda: Producer(bootstrap_servers="h:1")).kind == "producer"


FORKS_WITH_SCHEMAS = """
import os, sys
from moldau.client.serdes import AvroSerializer, SchemaRegistry
from moldau.client.sync import Producer

registry = SchemaRegistry(sys.argv[3], max_retries=0, http_read_timeout_ms=20_000)
serializer = AvroSerializer(registry)
producer = Producer(bootstrap_servers=sys.argv[1], value_serializer=serializer)
producer.start()
producer.send(sys.argv[2], 1.5).result(30)
child = os.fork()
if not child:
    with producer.configuration.open() as mine:
        mine.send(sys.argv[2], "text").result(30)
        mine.send(sys.argv[2], 2.5).result(30)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
producer.send(sys.argv[2], 7).result(30)
producer.send(sys.argv[2], b"raw").result(30)
producer.close()
"""


@pytest.mark.parametrize("first", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_after_a_fork_both_processes_write_with_the_right_schemas(
    bootstrap: str, topic: str, registry: ServedRegistry, first: str
) -> None:
    run(first + FORKS_WITH_SCHEMAS, bootstrap, topic, registry.url)

    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(SchemaRegistry(registry.url)),
    ) as consumer:
        consumer.assign([(topic, 0)])
        values = [record.value for record in islice(consumer, 5)]
    assert values == [1.5, "text", 2.5, 7, b"raw"]
    assert registry.script.connections == 3  # two that wrote, and the reader


def test_clients_one_after_the_other_and_a_loop_beside_them_use_one_serializer(
    bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    client = SchemaRegistry(registry.url, max_retries=0)
    write, read = AvroSerializer(client), AvroDeserializer(client)
    made: dict[str, Any] = {"bootstrap_servers": bootstrap, "value_serializer": write}

    async def beside(value: object) -> None:
        async with moldau.client.Producer(**made) as producer:
            await (await producer.send(topic, value))

    values = ["text", 1, 2.5, b"raw"]
    for value in values[:2]:
        with Producer(**made) as producer:
            producer.send(topic, value).result(30)
    with Producer(**made) as producer:
        asyncio.run(beside(values[2]))
        producer.send(topic, values[3]).result(30)
    for _ in range(2):
        with Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=read
        ) as consumer:
            consumer.assign([(topic, 0)])
            assert [record.value for record in islice(consumer, 4)] == values
    asyncio.run(client.aclose())


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["serdes", "sync"])
def test_typed_avro_goes_to_other_processes_by_configurations(
    bootstrap: str, tmp_path: Path, topic: str, registry: ServedRegistry, method: str, kind: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""\
        import multiprocessing, sys
        from dataclasses import dataclass
        from itertools import islice

        from moldau.client.serdes import AvroDeserializer, AvroSerializer
        from moldau.client.sync import Consumer, Producer

        SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'

        @dataclass
        class Order:
            id: int

        def write(configuration, topic, number):
            configuration.shared().send(topic, Order(number)).result(30)

        def read(configuration, topic):
            with configuration.open() as consumer:
                consumer.assign([(topic, 0)])
                return [record.value for record in islice(consumer, 4)]

        if __name__ == "__main__":
            address, topic, url, method, kind = sys.argv[1:]
            if kind == "sync":
                from moldau.client.sync import SchemaRegistry
            else:
                from moldau.client.serdes import SchemaRegistry
            registry = SchemaRegistry(url, max_retries=0)
            producer = Producer(
                bootstrap_servers=address, value_serializer=AvroSerializer(registry, SCHEMA)
            )
            consumer = Consumer(
                bootstrap_servers=address,
                auto_offset_reset="earliest",
                value_deserializer=AvroDeserializer(registry, type=Order),
            )
            with producer:
                producer.send(topic, Order(0)).result(30)
            with multiprocessing.get_context(method).Pool(2) as pool:
                pool.starmap(write, [(producer.configuration, topic, each) for each in (1, 2, 3)])
                print(sorted(each.id for each in pool.apply(read, (consumer.configuration, topic))))
        """)
    )
    done = subprocess.run(  # noqa: S603
        [*FORKING, str(program), bootstrap, topic, registry.url, method, kind],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 2, 3]\n", "")


IMPORTS = """\
import sys, threading
from moldau.client import sync
from moldau.runtime import forks

class Finder:
    def find_spec(self, name, path=None, target=None):
        is_here = threading.current_thread() is threading.main_thread()
        if name.startswith("moldau.") and not is_here and not forks._IMPORTING._is_owned():
            print(name)

sys.meta_path.insert(0, Finder())
texts = {"key_serializer": "string", "value_serializer": "string"}
with sync.Producer(bootstrap_servers=sys.argv[1], compression_type="gzip", **texts) as producer:
    producer.send("imports", "v", key="k").result(20)
with sync.Consumer(
    bootstrap_servers=sys.argv[1],
    group_id="imports",
    auto_offset_reset="earliest",
    value_deserializer="string",
) as consumer:
    consumer.subscribe("imports")
    while not consumer.poll(5.0):
        pass
    consumer.commit()
with sync.Admin(bootstrap_servers=sys.argv[1]) as admin:
    admin.list_topics()
"""


def test_nothing_is_imported_on_the_loop_while_another_thread_may_fork(bootstrap: str) -> None:
    assert run(IMPORTS, bootstrap) == ""
