"""One registry's client in a parent process and in its children, each of them a real process."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.serdes import SchemaRegistry
from tests.client.serdes.served_registry import ADDRESS, NAME, ServedRegistry, served_registry
from tests.client.sync.programs import WITHOUT_UVLOOP, run
from tests.runtime.localhost_certificate import certificate as certificate

LOCATION = "schema.registry.ssl.truststore.location"


@pytest.fixture
def served() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


@pytest.fixture(params=["http", "https"])
def any_served(request: pytest.FixtureRequest) -> Iterator[tuple[ServedRegistry, str]]:
    """With the file to believe it by."""
    if request.param == "http":
        with served_registry() as found:
            yield found, ""
        return
    pem: Path = request.getfixturevalue("certificate")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pem)
    with served_registry(serving) as found:
        yield found, str(pem)


IN_THREADS = """
import gc, os, sys, warnings
from moldau.client.serdes import Schema
from moldau.client.sync import SchemaRegistry

settings = {"schema.registry.url": sys.argv[1], "max.retries": 0, "http.read.timeout.ms": 20_000}
if sys.argv[2]:
    settings["schema.registry.ssl.truststore.location"] = sys.argv[2]
registry = SchemaRegistry(settings)
print(registry.register("a", Schema('"string"')), flush=True)
child = os.fork()
if not child:
    print(registry.register("a", Schema('"string"')), registry.register("b", Schema('"int"')))
    sys.stdout.flush()
    sys.exit(0)  # which collects whatever is left
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
child = os.fork()
if not child:
    sys.exit(0)  # which has asked nobody
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
child = os.fork()
if not child:
    warnings.simplefilter("always")
    del registry
    gc.collect()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(registry.register("c", Schema('"long"')), registry.register("d", Schema('"double"')))
registry.close()
"""


@pytest.mark.parametrize("first", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_a_child_asks_on_its_own_connections_and_leaves_the_parent_its(
    any_served: tuple[ServedRegistry, str], first: str
) -> None:
    served, truststore = any_served
    assert run(first + IN_THREADS, served.url, truststore) == "1\n1 2\n3 4\n"
    assert served.script.connections == 2


ON_LOOPS = """
import asyncio, os, sys
from moldau.client.serdes import Schema, SchemaRegistry

async def register(*names):
    return [await registry.register(name, Schema(f'"{name}"')) for name in names]

registry = SchemaRegistry(sys.argv[1], max_retries=0, http_read_timeout_ms=20_000)
with asyncio.Runner() as runner:
    print(runner.run(register("string")), flush=True)
    child = os.fork()
    if not child:
        run = runner.run if sys.argv[2] == "same" else asyncio.run
        print(run(register("string", "int")), flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(runner.run(register("long", "double")))
"""


@pytest.mark.parametrize("childs", ["same", "another"])
def test_the_same_goes_for_a_loop_of_the_programs_own(served: ServedRegistry, childs: str) -> None:
    # By its address: the loop itself has no thread any more that looks a name up.
    url = served.url.replace(NAME, ADDRESS)
    assert run(ON_LOOPS, url, childs) == "[1]\n[1, 2]\n[3, 4]\n"
    assert served.script.connections == 2


WHILE_ASKING = """
import os, signal, sys, threading
from moldau.client.serdes import RegistryError, Schema
from moldau.client.sync import SchemaRegistry

registry = SchemaRegistry(sys.argv[1], max_retries=0, http_read_timeout_ms=60_000)

def ask():
    try:
        registry.register("a", Schema('"string"'))
    except RegistryError as error:
        print(error.reason)

thread = threading.Thread(target=ask)
thread.start()
print("asks", flush=True)
sys.stdin.readline()
child = os.fork()
if not child:
    signal.alarm(30)
    print(registry.register("a", Schema('"string"')), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
registry.close()
thread.join()
"""


def test_a_child_does_not_wait_for_what_its_parent_asks(served: ServedRegistry) -> None:
    from tests.client.sync.programs import begin

    served.script.stalls = True
    running = begin(WHILE_ASKING, served.url)
    assert running.stdout is not None
    assert running.stdin is not None
    assert running.stdout.readline() == "asks\n"
    assert served.script.stalled.wait(30)
    served.script.stalls = False
    told, errors = running.communicate("go on\n", timeout=120)
    assert (told, errors) == ("1\n0\nthe client of the schema registry is closed\n", "")


WHILE_REMEMBERING = """
import os, signal, threading
from moldau.client.serdes.registry.cache import Cache

inside, go_on = threading.Event(), threading.Event()

class Key:
    def __hash__(self):
        inside.set()
        go_on.wait()
        return 1

cache = Cache(4)
thread = threading.Thread(target=cache.put, args=(Key(), 1))
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    cache.put("x", 7)
    print(cache.get("x"), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
thread.join()
"""


def test_a_child_may_remember_what_its_parent_was_about_to() -> None:
    assert run(WHILE_REMEMBERING) == "7\n0\n"


WITHOUT_A_DESCRIPTOR = """
import os, resource, sys
from moldau.client.serdes import Schema
from moldau.client.sync import SchemaRegistry

settings = {"max_retries": 0, "http_read_timeout_ms": 20_000}
registries = [SchemaRegistry(sys.argv[1], **settings) for _ in range(3)]
for registry in registries:
    registry.subjects()
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, most))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
child = os.fork()
if not child:
    for each in held:
        os.close(each)
    for registry in registries:
        registry.subjects()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
for each in held:
    os.close(each)
for registry in registries:
    registry.subjects()
    registry.close()
"""


@pytest.mark.parametrize("first", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_a_fork_needs_no_descriptor(served: ServedRegistry, first: str) -> None:
    assert run(first + WITHOUT_A_DESCRIPTOR, served.url) == ""
    assert served.script.connections == 6


WHILE_STARTING = """
import os, signal, sys, threading
from moldau.client.serdes import Schema
from moldau.client.sync import SchemaRegistry
from moldau.runtime.threaded import ThreadedRuntime

starts = ThreadedRuntime.start
starting, go_on = threading.Event(), threading.Event()

def starts_late(self):
    starting.set()
    go_on.wait()
    starts(self)

ThreadedRuntime.start = starts_late
registry = SchemaRegistry(sys.argv[1], max_retries=0)
thread = threading.Thread(target=registry.register, args=("a", Schema('"string"')))
thread.start()
starting.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    ThreadedRuntime.start = starts
    print(registry.register("b", Schema('"int"')), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
thread.join()
print(registry.register("a", Schema('"string"')))
registry.close()
"""


def test_a_child_begins_while_another_thread_of_its_parent_does(served: ServedRegistry) -> None:
    assert run(WHILE_STARTING, served.url) == "1\n0\n2\n"


def test_what_was_dropped_does_not_hear_of_forks(served: ServedRegistry) -> None:
    from moldau.runtime import forks

    async def main() -> int:
        async with SchemaRegistry(served.url) as registry:
            await registry.subjects()
            return len(set(forks._HEARERS) - known)

    known = set(forks._HEARERS)  # of other tests, and kept alive to the end of this one
    assert asyncio.run(main()) > 0
    assert set(forks._HEARERS) <= known
