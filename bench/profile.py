"""Where a produce and a fetch spend their time in the broker, by function.

Each load runs on one broker three times, over plain sockets (`bench.wire`):

1. alone: requests a second, and the broker's CPU a request, user and kernel;
2. under `perf`, if it is installed and allowed: the share of each library and kernel function;
3. under `cProfile`, which is switched on in the broker: its Python functions, by the CPU time of
   the event loop's thread. (By the wall clock, a `send` that wakes a client would include the
   client's time.) C functions count for their callers. Reading that clock costs half a microsecond
   a call and return, so compare the times with the first line: short functions are shorter than
   they look.

This area has a page of its own and no goals: it shows where to look, not how good it is.
"""

from __future__ import annotations

import os
import pstats
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

from bench.broker_load import create_topic, rdkafka_produce, write_payload
from bench.peer_brokers import (
    PARTITIONS,
    ProfiledBroker,
    cpu_seconds,
    user_and_kernel_seconds,
)
from bench.wire import (
    FetchWire,
    Wire,
    batch_of,
    error_position,
    first_record,
    one_record,
    round_trips,
)
from moldau.records.codecs import Codec

TOP: Final = 25
CONNECTIONS: Final = 16
SECONDS: Final = 3.0
PIECE_BYTES: Final = 1 << 20
_VALUE_BYTES: Final = 1024
_BATCH_VALUES: Final = 15
_PACKED_VALUES: Final = 30
_FILLED_VALUES: Final = 16_384
_DUMP_TIMEOUT_S: Final = 30.0
_SHARE: Final = re.compile(r"^\s*([\d.]+)%\s+(.+?)\s*$")

Work = Callable[[int], None]


class Load(NamedTuple):
    """A kind of work for the broker, and how many requests it is at a time."""

    title: str
    work: Work
    pace: int
    """The number of requests in one call of `work`."""


class Cost(NamedTuple):
    """The cost of one request in microseconds, and the requests a second."""

    per_second: float
    cpu_us: float
    user_share: float


def page(machine: str, command: str) -> str:
    """Return the whole page: every load on the same broker, one after the other."""
    lines = [
        *("# profile", "", f"- machine: {machine}", f"- command: `{command}`"),
        f"- {CONNECTIONS} connections with one request on its way each; fetch: one connection",
        "- own: in the function and the C functions it calls; all: with the Python functions it "
        "calls; CPU us a request, under cProfile, which makes short functions look long",
        "",
    ]
    with ProfiledBroker.started() as broker, ExitStack() as stack:
        for load in _loads(broker, stack):
            lines += section(broker, load)
    return "\n".join(lines).rstrip() + "\n"


def _loads(broker: ProfiledBroker, stack: ExitStack) -> Iterator[Load]:
    """Yield both paths, with small and with large requests."""
    create_topic(broker, "profiled")
    for partition in range(PARTITIONS):
        first_record(broker.port, "profiled", partition)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    write_payload(folder / "payload", _VALUE_BYTES)
    values = (folder / "payload").read_bytes().split(b"\n")
    packed = batch_of(values[:_PACKED_VALUES], Codec.LZ4)
    for title, records in (
        ("produce, one record of 100 B a request", one_record(bytes(100))),
        ("produce, a batch of 16 KB a request", batch_of(values[:_BATCH_VALUES])),
        (f"produce, a batch of {len(packed) >> 10} KB with lz4 a request", packed),
    ):
        with ExitStack() as held:
            wires = [
                held.enter_context(closing(Wire(broker.port, "profiled", at % PARTITIONS, records)))
                for at in range(CONNECTIONS)
            ]
            yield Load(title, _produces(wires), 2_000)
    yield Load("fetch, 1 MB a request", _fetches(broker, stack), 200)


def _produces(wires: Sequence[Wire]) -> Work:
    error_at = error_position("profiled")
    return lambda count: void(round_trips(wires, error_at, count))


def void(_: object) -> None:
    """Drop a result: the function is called for its effect."""


def _fetches(broker: ProfiledBroker, stack: ExitStack) -> Work:
    """Return the work of one consumer that reads the same megabyte in the page cache again."""
    create_topic(broker, "filled")
    settings = {"linger.ms": 20, "batch.num.messages": 15}
    rdkafka_produce(broker, "filled", _FILLED_VALUES * PARTITIONS, bytes(_VALUE_BYTES), settings)
    wire = stack.enter_context(closing(FetchWire(broker.port, "filled", 0, 0, PIECE_BYTES)))

    def work(count: int) -> None:
        for number in range(count):
            wire.seek(number * 900 % (_FILLED_VALUES - 2_000))
            wire.ask()
            assert len(wire.take()) > PIECE_BYTES // 2, "a fetch without a megabyte"

    return work


def section(broker: ProfiledBroker, load: Load) -> list[str]:
    """Measure one load and return its section of the page."""
    load.work(load.pace)
    cost = _cost(broker, load)
    lines = [
        *(f"## {load.title}", ""),
        f"{cost.per_second:,.0f} requests a second, {cost.cpu_us:.1f} us of the broker's CPU each, "
        f"of that {cost.user_share:.0%} user and {1 - cost.user_share:.0%} kernel.",
        "",
        *_native(broker, load),
    ]
    stats, count = _profile(broker, load)
    return [*lines, *_functions(stats, count), ""]


def _run_for(load: Load, seconds: float) -> int:
    """Run the load for that time and return the number of requests."""
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        load.work(load.pace)
        count += load.pace
    return count


def _cost(broker: ProfiledBroker, load: Load) -> Cost:
    before, (user, kernel) = cpu_seconds(broker.pid), user_and_kernel_seconds(broker.pid)
    start = time.perf_counter()
    count = _run_for(load, SECONDS)
    elapsed = time.perf_counter() - start
    spent = cpu_seconds(broker.pid) - before
    user_after, kernel_after = user_and_kernel_seconds(broker.pid)
    user, kernel = user_after - user, kernel_after - kernel
    return Cost(count / elapsed, spent / count * 1e6, user / max(user + kernel, 1e-9))


# From outside


def _native(broker: ProfiledBroker, load: Load) -> list[str]:
    """Return the shares of libraries and native functions, measured by perf."""
    perf = shutil.which("perf")
    if perf is None:
        return ["perf is not here: no shares of libraries and kernel functions.", ""]
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        recorder = subprocess.Popen(  # noqa: S603 - found above
            [perf, "record", "-F", "1999", "-o", data, "-p", str(broker.pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _run_for(load, SECONDS)
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
        if not os.path.exists(data):
            return ["perf may not look at processes here.", ""]
        libraries = _shares(perf, data, "dso")[:6]
        functions = _shares(perf, data, "dso,symbol")[:12]
    return [
        "Libraries: " + ", ".join(f"{name} {share}%" for share, name in libraries) + ".",
        "",
        "Native functions: " + ", ".join(f"{name} {share}%" for share, name in functions) + ".",
        "",
    ]


def _shares(perf: str, data: str, by: str) -> list[tuple[str, str]]:
    command = [perf, "report", "-i", data, "--no-children", "-g", "none", "--sort", by, "--stdio"]
    printed = subprocess.run(  # noqa: S603 - found by its name
        command, capture_output=True, text=True, check=False
    ).stdout
    found = (_SHARE.match(line) for line in printed.splitlines() if not line.startswith("#"))
    return [(each[1], readable(each[2])) for each in found if each]


def readable(name: str) -> str:
    """Return `libc.so.6 [.] send` as `send (libc)`, and a library without its version."""
    library, _, function = name.partition(" ")
    short = library.strip("[]").split(".")[0]
    function = re.sub(r"^\[.\]\s*|(\s+-)+$", "", function.strip())
    return f"{function} ({short})" if function else short


# From inside


def _profile(broker: ProfiledBroker, load: Load) -> tuple[pstats.Stats, int]:
    broker.dump.unlink(missing_ok=True)
    os.kill(broker.pid, signal.SIGUSR1)
    count = _run_for(load, SECONDS)
    os.kill(broker.pid, signal.SIGUSR2)
    deadline = time.monotonic() + _DUMP_TIMEOUT_S
    while not broker.dump.exists():
        load.work(1)  # a signal is looked at when the event loop wakes
        if time.monotonic() > deadline:
            raise TimeoutError("the broker wrote no profile")
    return pstats.Stats(str(broker.dump)), count


def _functions(stats: pstats.Stats, count: int) -> list[str]:
    """Return the lines of the functions with the most time of their own."""
    rows = [
        (own, whole, calls, place(*function))
        for function, (_, calls, own, whole, _) in stats.stats.items()  # type: ignore[attr-defined]
    ]
    rows.sort(reverse=True)
    total = sum(own for own, *_ in rows)
    lines = [
        f"{total / count * 1e6:.1f} us a request under cProfile; the first {TOP} functions:",
        "",
        "| function | calls a request | own us | all us | own share |",
        "|-|-:|-:|-:|-:|",
    ]
    for own, whole, calls, name in rows[:TOP]:
        lines.append(
            f"| {name} | {calls / count:.2f} | {own / count * 1e6:.2f} | {whole / count * 1e6:.2f} "
            f"| {own / total:.1%} |"
        )
    return lines


def place(file: str, line: int, function: str) -> str:
    """Return `network/shell.py buffer_updated` for a function, and a name for generated code."""
    if file.startswith("<"):
        return f"`{file} {function}`"
    return f"`{'/'.join(Path(file).parts[-2:])} {function}`"
