"""Streams apps beside Kafka Streams, Quix, Bytewax, Faust and Pathway, in records a second.

All read the same JSON records of about 150 bytes from our broker and write their results back to
it; broker, app and the measuring process share the cores. Measured is the time between two marked
records at the end of the app. The first comes after a tenth of the load, so that neither start nor
warm-up count. Each run is a new app that reads its topic from the beginning.

All are at-least-once and commit once a second; `bench.stream_guarantees` has exactly-once. Tables
announce updates by their library's default: ours and Kafka Streams the last of each key at a
commit, the others each one.

The gain from a second worker is measured by marks all over the load (bench.stream_marks), while
both run: an app that computes, one that hardly does, and beside each the same work in bare
processes, which share nothing but the broker and the cores.

Without Java, Maven or the venv of the others (`make stream-bench-peers`), their rows are missing;
`BENCH_STREAM_PEERS` names another venv. `BENCH_SCALE=0.1` makes every load a tenth as long, for a
quick run. An app that takes longer than two minutes, or that ends, is missing in its row, with the
reason; `--rows count restore` measures some tables alone.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Final

from bench.harness import Case, Goal, Missing, Table
from bench.peer_brokers import HOST, MoldauBroker
from bench.stream_marks import Marks, mark
from moldau.client import KafkaError, NewTopic, TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from tests.peers.apache_kafka import VERSION, PeerMissing, fetch

HERE: Final = Path(__file__).parent
PEERS_VENV: Final = Path(
    os.environ.get("BENCH_STREAM_PEERS", HERE.parent / ".venv" / "stream-bench")
)
SCALE: Final = float(os.environ.get("BENCH_SCALE", "1"))
# Enough that a commit's second does not show, and that slow ones come to an end.
RECORDS: Final = {"Quix": 200_000, "Faust": 50_000}
RECORDS_ELSE: Final = 1_000_000
# Ours and Kafka Streams announce few keys at commits only: both marks come with one, so that a time
# is a number of whole seconds. It has to be a large number.
RECORDS_AT_COMMIT: Final = 8_000_000
FEW_KEYS: Final = 1_000
KEY_COUNTS: Final = (FEW_KEYS, 1_000_000)
JOIN_KEYS: Final = 10_000
RESTORED: Final = round(1_000_000 * SCALE)
BEGIN: Final = b"begin"
END: Final = b"end"
OURS: Final = "moldau"
EXACT: Final = "exactly-once"
"""Ours with transactions: ten a second, or one while it is behind, as it is in a bench."""
EXACT_OFTEN: Final = "exactly-once, each 100 ms"
"""The same with ten a second in any case."""
JAVA: Final = "Kafka Streams"
JAVA_VERSION: Final = os.environ.get("KAFKA_PEER_VERSION", VERSION)
# The heartbeats of streams groups are for `bench.streams_groups`.
BROKER: Final = {
    "num.partitions": "1",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "0",
}
# The package of each, and its program in bench/stream_peers.py.
PEERS: Final = {
    "Quix": ("quixstreams", "quix"),
    "Bytewax": ("bytewax", "bytewax"),
    "Faust": ("faust", "faust"),
    "Pathway": ("pathway", "pathway"),
}
PEERS_OF: Final[Mapping[str, Sequence[str]]] = {
    "stateless": ("Quix", "Bytewax", "Faust", "Pathway"),
    "count": ("Quix", "Bytewax", "Faust", "Pathway"),
    "windowed": ("Quix",),
    "join": (),
}
GOALS: Final[Mapping[str, Mapping[str, float]]] = {
    "stateless": {JAVA: 2.0, "Quix": 2.0},
    "count": {JAVA: 1.0, "Quix": 5.0},
    "windowed": {JAVA: 1.0, "Quix": 8.0},
    "join": {JAVA: 2.0},
}
# The records of all topics begin at one time, so that those of two can meet. They are a millisecond
# apart, and a broker refuses those of the future: the longest load is three hours.
START_MS: Final = int(time.time() * 1000) - 6 * 3_600_000
# Two workers on a partition each. Enough records that both run for several seconds after the
# rebalance that makes them two.
WORKERS: Final = 2
WORKER_RECORDS: Final = {"scoring": 2_000_000, "count": 10_000_000}
MARK_EVERY: Final = 5_000
CELL_S: Final = 120.0
"""The longest time for a run of one app."""
_STOP_S: Final = 30.0
_runs = count()


@dataclass(frozen=True, slots=True)
class App:
    """A program to start: its library, kind, name and topics."""

    library: str
    kind: str
    name: str
    state: Path
    topics: tuple[str, str]
    out: str
    workers: int = 1


class Arena:
    """Our broker, and the topics on it."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-bench-"))
        )
        self.broker = stack.enter_context(MoldauBroker.started(BROKER))
        self.bootstrap = f"{HOST}:{self.broker.port}"
        self.admin = stack.enter_context(Admin(bootstrap_servers=self.bootstrap))
        self._filled: set[str] = set()

    def topic(self, name: str, partitions: int = 1) -> str:
        self.admin.create_topic(NewTopic(name, partitions, 1))
        return name

    def loaded(self, keys: int, records: int, side: int = 0) -> str:
        """Return a topic with the load, made once: a tenth, a mark, the rest, the last mark."""
        name = f"in-{keys}-{records}-{side}"
        if name not in self._filled:
            self._fill(self.topic(name), keys, records)
            self._filled.add(name)
        return name

    def _fill(self, name: str, keys: int, records: int) -> None:
        chance = random.Random(name)
        warm_up = records // 10
        start = START_MS
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for first in range(0, warm_up + records, 10_000):
                size = min(10_000, warm_up + records - first)
                if first <= warm_up < first + size:
                    self._mark(producer, name, BEGIN, start + first)
                users = [f"user-{chance.randrange(keys):07}" for _ in range(size)]
                producer.send_many(
                    name,
                    [order(user, first + index, chance) for index, user in enumerate(users)],
                    keys=[user.encode() for user in users],
                    timestamps_ms=[start + first + index for index in range(size)],
                )
                producer.flush()
            self._mark(producer, name, END, start + warm_up + records)

    def marked(self, keys: int, records: int) -> str:
        """Return a topic with the load and marks in it, with one partition for each worker."""
        name = f"marked-{keys}-{records}"
        if name not in self._filled:
            self._fill_marked(self.topic(name, WORKERS), keys, records)
            self._filled.add(name)
        return name

    def _fill_marked(self, name: str, keys: int, records: int) -> None:
        chance = random.Random(name)
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number, first in enumerate(range(0, records, WORKERS * MARK_EVERY)):
                for partition in range(WORKERS):
                    users = [f"user-{chance.randrange(keys):07}" for _ in range(MARK_EVERY - 1)]
                    values = [order(user, first, chance) for user in users]
                    users.append(mark(partition, number).decode())
                    values.append(order(users[-1], first, random.Random(0)))
                    keys_ = [user.encode() for user in users]
                    producer.send_many(name, values, keys=keys_, partition=partition)
                producer.flush()

    @staticmethod
    def _mark(producer: Producer, name: str, key: bytes, time_ms: int) -> None:
        value = order(key.decode(), 0, random.Random(0))
        producer.send(name, value, key=key, timestamp_ms=time_ms)
        producer.flush()


def order(user: str, item: int, chance: random.Random) -> bytes:
    """Return a record as JSON."""
    amount = chance.randrange(100, 99_999) / 100
    return (
        f'{{"user":"{user}","amount":{amount},"kind":"view","country":"de","item":{item},'
        f'"note":"delivered to the door, {"x" * 45}"}}'
    ).encode()


@cache
def arena() -> Arena:
    with ExitStack() as stack:
        made = Arena(stack)
        # After its folder was made: what is registered last runs first.
        atexit.register(stack.pop_all().close)
    return made


@cache
def java_command() -> tuple[str, ...]:
    """Return the command of the compiled Java program. Raise PeerMissing without Java."""
    kafka = fetch(JAVA_VERSION)
    classes = arena().folder / "classes"
    compiler = str(Path(kafka.java).with_name("javac"))
    subprocess.run(  # noqa: S603 - our own file, compiled by the JDK that was found
        [compiler, "-cp", kafka.class_path, "-d", str(classes), str(HERE / "StreamsPeer.java")],
        check=True,
    )
    return (kafka.java, "-Xmx1g", "-cp", f"{classes}:{kafka.class_path}", "StreamsPeer")


def peer_python(package: str) -> Path | None:
    """Return the Python in the other libraries' venv, or None if that does not have this one."""
    python = PEERS_VENV / "bin" / "python"
    found = list(PEERS_VENV.glob(f"lib/*/site-packages/{package}"))
    return python if found else None


def command(app: App) -> tuple[Sequence[str], dict[str, str]]:
    """Return the command line of an app, and its additional environment."""
    topic, other = app.topics
    words = (app.kind, arena().bootstrap, app.name, str(app.state), topic)
    if app.library == JAVA:
        return [*java_command(), *words, other, app.out], {}
    if app.library in PEERS:
        package, program = PEERS[app.library]
        python = str(peer_python(package))
        return [python, "-m", "bench.stream_peers", program, *words, app.out], {}
    named = {"BENCH_APP": app.name, "BENCH_IN": topic, "BENCH_OTHER": other, "BENCH_OUT": app.out}
    if app.library in (EXACT, EXACT_OFTEN):
        named["BENCH_PROCESSING"] = "exactly_once"
    often = ["--set", "commit.interval.ms=100"] * (app.library == EXACT_OFTEN)
    moldau = str(Path(sys.executable).with_name("moldau"))
    run = [moldau, "streams", "run", f"bench.stream_apps:{app.kind}"]
    where = ["--bootstrap", arena().bootstrap, "--state", str(app.state)]
    return [*run, *where, "--workers", str(app.workers), "--log-level", "warn", *often], named


@contextmanager
def running(app: App) -> Iterator[subprocess.Popen[bytes]]:
    """Run the app as a process. Stop it cleanly, or kill it if it does not end."""
    words, named = command(app)
    with started(app, words, named) as process:
        yield process


@contextmanager
def started(
    app: App, words: Sequence[str], named: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Do the same as `running` with this command line and environment."""
    log = arena().folder / f"{app.name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - our own programs
            words, stdout=out, stderr=out, cwd=HERE.parent, env={**os.environ, **named}
        )
    try:
        yield process
    except Missing as error:
        print(log.read_text(errors="replace")[-3000:], file=sys.stderr, flush=True)
        raise Missing(f"{error}; {_last_line(log)}") from error
    except BaseException as error:
        error.add_note(log.read_text(errors="replace")[-3000:])
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    found = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"its log ends: {found[:200]}" if found else "its log is empty"


def seen(out: str, keys: Sequence[bytes], process: subprocess.Popen[bytes]) -> list[float]:
    """Return when the first record with each of these keys came. Raise Missing if they do not come
    in time."""
    times: dict[bytes, float] = {}
    deadline = time.monotonic() + CELL_S
    with Consumer(
        bootstrap_servers=arena().bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.assign([TopicPartition(out, 0)])
        while len(times) < len(keys):
            if time.monotonic() > deadline:
                raise Missing(f"not done after {CELL_S:.0f} s")
            if (code := process.poll()) is not None:
                raise Missing(f"the app ended with exit code {code}")
            for part in consumer.poll_batches(0.05):
                found = part.keys.tolist()
                for key in keys:
                    if key not in times and key in found:
                        times[key] = time.perf_counter()
    return [times[key] for key in keys]


def worked(kind: str, workers: int, *, is_bare: bool = False) -> float:
    """Return records a second on two partitions while all workers (or bare processes) run."""
    records = round(WORKER_RECORDS[kind] * SCALE)
    topic = arena().marked(JOIN_KEYS, records)
    app = fresh(OURS, kind, (topic, topic), workers)
    app.state.mkdir()
    marks = Marks(WORKERS, records // (WORKERS * MARK_EVERY) - 1)
    with ExitStack() as stack:
        processes = [stack.enter_context(each) for each in _worked_by(app, is_bare=is_bare)]
        ready_s = _watched(app, marks, processes, is_bare=is_bare)
    rate = marks.rate(ready_s, MARK_EVERY)
    if rate is None:
        raise Missing("the load is too small: it was done before all workers ran")
    arena().admin.delete_topic(app.out)
    shutil.rmtree(app.state, ignore_errors=True)
    return rate


def _worked_by(
    app: App, *, is_bare: bool
) -> Iterator[AbstractContextManager[subprocess.Popen[bytes]]]:
    if not is_bare:
        yield running(app)
        return
    shares = [range(at, WORKERS, app.workers) for at in range(app.workers)]
    for share in shares:
        where = (arena().bootstrap, app.topics[0], app.out)
        words = [sys.executable, "-m", "bench.stream_bare", app.kind, *where, *map(str, share)]
        yield started(app, words, {})


def _watched(
    app: App, marks: Marks, processes: Sequence[subprocess.Popen[bytes]], *, is_bare: bool
) -> float:
    """Take marks until the last ones. Return the time since when all workers have partitions."""
    deadline = time.monotonic() + CELL_S
    ready_s = time.perf_counter() if is_bare else 0.0
    with Consumer(bootstrap_servers=arena().bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(app.out, 0)])
        while not marks.is_done:
            if time.monotonic() > deadline:
                raise Missing(f"not done after {CELL_S:.0f} s")
            for process in processes:
                if (code := process.poll()) is not None:
                    raise Missing(f"a process ended with exit code {code}")
            if not ready_s and _is_shared(app):
                ready_s = time.perf_counter()
            for part in consumer.poll_batches(0.05):
                marks.take(part.keys.tolist(), time.perf_counter())
    return ready_s


def _is_shared(app: App) -> bool:
    """Whether each worker has its partitions."""
    group = arena().admin.describe_groups([app.name])[app.name]
    if isinstance(group, KafkaError):
        return False  # there is none yet
    return len(group.members) == app.workers and all(each.assignment for each in group.members)


def fresh(library: str, kind: str, topics: tuple[str, str], workers: int = 1) -> App:
    """Return an app that has never run, with its own output topic."""
    name = f"{kind}-{next(_runs)}"
    out = arena().topic(f"{name}-out")
    return App(library, kind, name, arena().folder / name, topics, out, workers)


def throughput(library: str, kind: str, keys: int, records: int = 0) -> float:
    """Return the records a second between the marks of a load of so many, of each input."""
    records = round((records or _records(library, keys)) * SCALE)
    topic = arena().loaded(keys, records)
    other = arena().loaded(keys, records, side=1) if kind == "join" else topic
    app = fresh(library, kind, (topic, other))
    app.state.mkdir()
    with running(app) as process:
        begin, end = seen(app.out, (BEGIN, END), process)
    if end <= begin:
        raise Missing("the load is too small: both marks came at once")
    arena().admin.delete_topic(app.out)
    shutil.rmtree(app.state, ignore_errors=True)
    return records * (2 if kind == "join" else 1) / (end - begin)


def _records(library: str, keys: int) -> int:
    if keys == FEW_KEYS and library in (OURS, JAVA):
        return RECORDS_AT_COMMIT
    return RECORDS.get(library, RECORDS_ELSE)


@cache
def counted(library: str) -> App:
    """Return an app that has counted many keys to its end: its changelog is full."""
    topic = arena().loaded(RESTORED, RESTORED)
    app = fresh(library, "count", (topic, topic))
    app.state.mkdir()
    with running(app) as process:
        seen(app.out, (END,), process)
    return app


def restore(library: str) -> float:
    """Return the seconds from the start without a store to the first result."""
    app = counted(library)
    shutil.rmtree(app.state)
    app.state.mkdir()
    key = f"again-{next(_runs)}".encode()
    with Producer(bootstrap_servers=arena().bootstrap) as producer:
        producer.send(app.topics[0], order(key.decode(), 0, random.Random(0)), key=key)
    start = time.perf_counter()
    with running(app) as process:
        (end,) = seen(app.out, (key,), process)
    return end - start


def has_kafka_streams() -> bool:
    """Return whether Kafka Streams can be run here."""
    try:
        java_command()
    except PeerMissing:
        return False
    return True


def _libraries(kind: str) -> list[str]:
    found = [OURS, *([JAVA] if has_kafka_streams() else [])]
    return found + [each for each in PEERS_OF[kind] if peer_python(PEERS[each][0])]


def _goals(kind: str, libraries: Sequence[str]) -> list[Goal]:
    return [
        Goal(OURS, library, ratio_at_least=least)
        for library, least in GOALS[kind].items()
        if library in libraries
    ]


def _expression_table() -> Table:
    """Measure the stateless operators as expressions and as functions."""
    named = {
        "expressions": "expressions",
        "expressions, no type": "untyped",
        "lambdas, no type": "lambdas",
        "lambdas": "stateless",
    }
    cases = [Case(name, partial(throughput, OURS, kind, JOIN_KEYS)) for name, kind in named.items()]
    goals = [Goal("expressions", "lambdas, no type", ratio_at_least=3.0)]
    if JAVA in _libraries("stateless"):
        cases.append(Case(JAVA, partial(throughput, JAVA, "stateless", JOIN_KEYS)))
        goals.append(Goal("expressions", JAVA, ratio_at_least=6.0))
    return Table(f"expressions, {JOIN_KEYS} keys", "records/s", cases, goals)


def _worker_tables() -> Iterator[Table]:
    """Measure the gain from a second worker, where the app's functions cost most and where hardly
    at all. Bare processes, which share nothing but the broker, show the most that is possible."""
    for kind in WORKER_RECORDS:
        numbers = range(1, WORKERS + 1)
        ours = [Case(f"{number} workers", partial(worked, kind, number)) for number in numbers]
        bare = [
            Case(f"{number} bare processes", partial(worked, kind, number, is_bare=True))
            for number in numbers
        ]
        goal = Goal("2 workers", "1 workers", ratio_at_least=1.7)
        yield Table(f"{kind} on two partitions", "records/s", [*ours, *bare], [goal])


def tables() -> Iterator[Table]:
    """Measure throughput of each kind, the gain from a second worker, and the time of a restore."""
    for kind in PEERS_OF:
        libraries = _libraries(kind)
        for keys in KEY_COUNTS if kind in ("count", "windowed") else (JOIN_KEYS,):
            cases = [
                Case(library, partial(throughput, library, kind, keys)) for library in libraries
            ]
            title = f"{kind}, {keys} keys"
            yield Table(title, "records/s", cases, _goals(kind, libraries))
    yield _expression_table()
    yield from _worker_tables()
    restored = [each for each in _libraries("count") if each in (OURS, JAVA)]
    yield Table(
        f"restore of a count of {RESTORED} records",
        "s",
        [Case(library, partial(restore, library)) for library in restored],
        [Goal(OURS, JAVA, ratio_at_most=1.0)] if JAVA in restored else [],
        higher_is_better=False,
    )
