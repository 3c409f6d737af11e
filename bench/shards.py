"""One host with 1, 2 and 4 shards: what a request costs, and what two cores give.

Most rows are CPU, so they hold on a busy machine. Prepared requests of 16 KB come over 16 plain
sockets (`bench.wire`), 2 for each of 8 partitions, each with one in flight, so that the load has
one shape whatever the number of shards; a client that makes batches sends other ones to two brokers
than to one. For a request's cost all shards share one core, and the client has the other one, at
the lowest priority. The rows of two cores leave it to the system where processes run.

`BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from contextlib import ExitStack, closing
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.broker_load import write_payload
from bench.cluster import SIZE_BYTES, throughput
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, cpu_seconds
from bench.wire import Wire, batch_of, error_position, round_trips
from moldau.runtime.node_processes import NodeProcess, free_ports_in_row

SCALE: Final = float(os.environ.get("BENCH_SCALE", "1"))
COUNTS: Final = (1, 2, 4)
PARTITIONS: Final = 8
WIRES: Final = 16
CLIENTS: Final = 2
RECORDS: Final = 15
"""In a request of 16 KB."""
REQUESTS: Final = max(2_000, int(40_000 * SCALE))
MESSAGES: Final = max(5_000, int(300_000 * SCALE))
IDLE_SECONDS: Final = max(1.0, 10 * SCALE)
SLICE: Final = 500
SLICES: Final = max(4, int(40 * SCALE))
WITHIN_SECONDS: Final = 90.0
_stack: Final = ExitStack()


class Host(NamedTuple):
    """A host that runs."""

    port: int
    pids: tuple[int, ...]

    def place(self, cores: set[int]) -> None:
        """Let its shards run on these cores alone."""
        for pid in self.pids:
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), cores)

    def cpu(self) -> float:
        return sum(map(cpu_seconds, self.pids))

    def switches(self) -> int:
        """How often its shards have waited or were put aside."""
        return sum(map(_switches, self.pids))


def _switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


@cache
def host(count: int) -> Host:
    """Start a host with that many shards, on first use."""
    folder = _stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-shards-"))
    atexit.unregister(_stack.close)
    atexit.register(_stack.close)
    port = free_ports_in_row(count + 1)
    words = ["broker", "start", "--listen", f"{HOST}:{port}", "--data", f"{folder}/data"]
    process = NodeProcess([*words, "--shards", str(count)], f"{folder}/log")

    def end() -> None:
        process.terminate()
        if process.wait(60) is None:
            process.kill()
            process.wait(60)

    _stack.callback(end)
    line = process.line(WITHIN_SECONDS)
    if line is None or " is up" not in line:
        raise RuntimeError(Path(f"{folder}/log").read_text())
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return Host(port, tuple(map(int, children)) if count > 1 else (process.pid,))


class Load(NamedTuple):
    """What one client process sends: requests to the leaders of some partitions."""

    topic: str
    places: tuple[tuple[int, int], ...]
    """A port and a partition for each socket."""
    records: bytes
    requests: int


class Sent(NamedTuple):
    """What a client process measured."""

    per_second: float
    cpu_seconds: float


def _wires(load: Load, stack: ExitStack) -> list[Wire]:
    return [
        stack.enter_context(closing(Wire(port, load.topic, index, load.records)))
        for port, index in load.places
    ]


def _begin(number: int) -> int:
    """Start a process of a pool, with what it imports, before a clock does."""
    time.sleep(0.1)  # so that another process takes the next number
    return number


def _send(load: Load) -> Sent:
    with ExitStack() as stack:
        wires = _wires(load, stack)
        began = time.process_time()
        rate = round_trips(wires, error_position(load.topic), load.requests)
        return Sent(rate, time.process_time() - began)


def leaders(found: Host, topic: str) -> list[int]:
    """Make a topic, and return the port of each partition's leader."""
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{found.port}"})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(60)
    described = admin.list_topics(topic, timeout=30)
    ports = {broker.id: broker.port for broker in described.brokers.values()}
    of_topic = described.topics[topic].partitions
    return [ports[of_topic[index].leader] for index in range(PARTITIONS)]


def records() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "payload")
        write_payload(path, SIZE_BYTES)
        return batch_of(path.read_bytes().split(b"\n")[:RECORDS])


def loads(count: int, clients: int, requests: int) -> list[Load]:
    """Make a topic on a host. Return what each client sends there."""
    topic = f"w-{time.monotonic_ns()}"
    ports, batch = leaders(host(count), topic), records()
    places = [(ports[at % PARTITIONS], at % PARTITIONS) for at in range(WIRES)]
    return [
        Load(topic, tuple(places[at::clients]), batch, requests // clients) for at in range(clients)
    ]


class Slice(NamedTuple):
    """What a request cost in a slice of the work."""

    cpu_s: float
    switches: float


_best: Final[dict[int, Slice]] = {}


def measure_requests() -> None:
    """Send slices of requests to all hosts in turns, all shards on one core and this process on the
    others. Keep the cheapest slice of each host: others met more of the machine's other work."""
    all_cores = os.sched_getaffinity(0)
    first = {min(all_cores)}
    with ExitStack() as stack:
        wires = {
            count: (_wires(load, stack), error_position(load.topic))
            for count in COUNTS
            for load in loads(count, 1, SLICE)
        }
        for count in COUNTS:
            host(count).place(first)
            stack.callback(host(count).place, all_cores)
        os.sched_setaffinity(0, all_cores - first or all_cores)
        stack.callback(os.sched_setaffinity, 0, all_cores)
        for _ in range(SLICES):
            for count, (sockets, error_at) in wires.items():
                found = host(count)
                cpu, switches = found.cpu(), found.switches()
                round_trips(sockets, error_at, SLICE)
                spent = Slice((found.cpu() - cpu) / SLICE, (found.switches() - switches) / SLICE)
                _best[count] = min(_best.get(count, spent), spent)


def request_cpu(count: int) -> float:
    """Return the CPU of a request in seconds, in the cheapest slice."""
    if count == COUNTS[0]:
        _best.clear()
    if not _best:
        measure_requests()
    return _best[count].cpu_s


def request_switches(count: int) -> float:
    """Return the context switches of the shards for a request, in that slice."""
    if not _best:
        measure_requests()
    return _best[count].switches


def idle_cpu(count: int) -> float:
    """Return the CPU, in seconds a second, of shards that nobody asks anything."""
    before, began = host(count).cpu(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    return (host(count).cpu() - before) / (time.perf_counter() - began)


_both: Final[dict[int, float]] = {}


def prepared(count: int) -> float:
    """Return the requests a second of two processes that do nothing but send prepared ones."""
    with get_context("spawn").Pool(CLIENTS) as pool:
        pool.map(_begin, range(CLIENTS), chunksize=1)
        work = loads(count, CLIENTS, REQUESTS)
        cpu = host(count).cpu()
        sent = pool.map(_send, work, chunksize=1)
        spent = host(count).cpu() - cpu + sum(each.cpu_seconds for each in sent)
    _both[count] = spent / REQUESTS
    return sum(each.per_second for each in sent)


def ceiling() -> float:
    """Return the requests a second for which all cores have time, with what one cost in the broker
    and its clients with one shard."""
    if 1 not in _both:
        prepared(1)
    return len(os.sched_getaffinity(0)) / _both[1]


def _librdkafka(work: tuple[str, str, int]) -> float:
    return throughput(*work)


def real_clients(count: int) -> float:
    """Return the bytes a second of two librdkafka clients, each with its own process and topic."""
    servers = f"{HOST}:{host(count).port}"
    topics = [f"s-{time.monotonic_ns()}-{number}" for number in range(CLIENTS)]
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(each, 6, 1) for each in topics]).values():
        future.result(60)
    with get_context("spawn").Pool(CLIENTS) as pool:
        pool.map(_begin, range(CLIENTS), chunksize=1)
        began = time.perf_counter()
        pool.map(_librdkafka, [(servers, each, MESSAGES // CLIENTS) for each in topics])
        elapsed = time.perf_counter() - began
    for future in admin.delete_topics(topics).values():
        future.result(60)
    return MESSAGES // CLIENTS * CLIENTS * SIZE_BYTES / elapsed


def name(count: int) -> str:
    return "1 shard" if count == 1 else f"{count} shards"


def tables() -> list[Table]:
    one, two, four = map(name, COUNTS)
    cores = f"{os.cpu_count()} cores, shared by brokers and clients"
    level = [Goal(each, versus=one, ratio_at_most=1.05) for each in (two, four)]
    return [
        Table(
            "CPU of a request of 16 KB, all shards on one core",
            "s",
            [Case(name(each), partial(request_cpu, each)) for each in COUNTS],
            goals=level,
            higher_is_better=False,
        ),
        Table(
            "Context switches of the shards for such a request",
            "switches",
            [Case(name(each), partial(request_switches, each)) for each in COUNTS],
            higher_is_better=False,
        ),
        Table(
            "CPU of shards that nobody asks, a second",
            "s",
            [Case(name(each), partial(idle_cpu, each)) for each in COUNTS],
            higher_is_better=False,
        ),
        Table(
            "Two processes send prepared requests of 16 KB to one host",
            "requests/s",
            [
                Case(one, partial(prepared, 1)),
                Case(two, partial(prepared, 2)),
                Case("what two cores have time for", ceiling),
            ],
            goals=[Goal(two, versus=one, ratio_at_least=1.25)],
            notes=[cores],
        ),
        Table(
            "Two clients produce 1 KB to one host",
            "B/s",
            [Case(one, partial(real_clients, 1)), Case(two, partial(real_clients, 2))],
            goals=[Goal(two, versus=one, ratio_at_least=1.25)],
            notes=[cores],
        ),
    ]
