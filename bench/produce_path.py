"""What one produce costs in instructions, from the bytes of its frame to the bytes of its answer.

    python -m bench.produce_path [LOAD...] [--functions]

The broker and the measurement are one process, and nothing of the network is measured: the frame
is put into the connection's buffer as the event loop does, and the answer goes to a transport that
drops it. The log is a real file. valgrind counts the instructions of the process (not those of the
kernel), so a busy machine changes nothing: two runs differ by less than 1 %. `--functions` prints
the native functions that they are spent in.

It has no goals and no page: run it before and after a change of the path.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from bench.broker_load import write_payload
from bench.peer_brokers import PARTITIONS
from bench.wire import batch_of, error_position, one_record, produce_request_of
from moldau.broker.network.shell import Connection
from moldau.client import Admin, NewTopic
from moldau.records.codecs import Codec
from moldau.testing import EmbeddedBroker

TOPIC: Final = "path"
SIX: Final = "one-of-six"
WARM_UP: Final = 300
COUNTED: Final = 400
_ROOT: Final = Path(__file__).parent.parent
_SWITCH: Final = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
_TOTAL: Final = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class DroppingTransport:
    """Takes the answers of a connection, and remembers the last one."""

    def __init__(self) -> None:
        self.last: Any = b""

    def write(self, data: Any) -> None:
        self.last = data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


def loads(folder: Path) -> dict[str, bytes]:
    """Return the records of each load: one record of 100 B, the same for each of six partitions (as
    Java's perf tool sends one record a request), and batches of 16 KB as that tool sends them with
    its default settings, of values of 1 KB and of 100 B."""
    found = dict.fromkeys(("one", SIX), one_record(bytes(100)))
    for size, counts in ((1024, (15, 29, 52)), (100, (140, 560, 980))):
        path = folder / f"payload-{size}"
        write_payload(path, size)
        values = path.read_bytes().split(b"\n")
        name = "1k" if size == 1024 else "100"
        for codec, count in zip((Codec.NONE, Codec.LZ4, Codec.ZSTD), counts, strict=True):
            found[f"{name}-{codec.name.lower()}"] = batch_of(values[:count], codec)
    return found


async def connected(broker: EmbeddedBroker) -> tuple[Connection, asyncio.StreamWriter]:
    """Return the broker's end of a new connection, and the client's end, which sends nothing."""
    made: list[Connection] = []
    prepare = Connection.connection_made

    def connection_made(self: Connection, transport: asyncio.BaseTransport) -> None:
        prepare(self, transport)
        made.append(self)

    Connection.connection_made = connection_made  # type: ignore[method-assign]
    try:
        host, _, port = broker.bootstrap_servers.partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        while not made or made[0].is_in_line:  # noqa: ASYNC110 - the broker sets it
            await asyncio.sleep(0)
    finally:
        Connection.connection_made = prepare  # type: ignore[method-assign]
    return made[0], writer


async def run(name: str, switch: ctypes.CDLL | None) -> float:
    """Produce `COUNTED` times. Return the least CPU microseconds of a request."""
    with tempfile.TemporaryDirectory() as folder:
        records = loads(Path(folder))[name]
    async with EmbeddedBroker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic(TOPIC, PARTITIONS))
        connection, peer = await connected(broker)
        transport = DroppingTransport()
        connection._sender.transport = transport  # type: ignore[assignment]
        frame = produce_request_of(TOPIC, range(PARTITIONS if name == SIX else 1), records)
        size, error_at = len(frame), error_position(TOPIC)

        def produce() -> None:
            connection.get_buffer(-1)[:size] = frame
            connection.buffer_updated(size)

        for _ in range(WARM_UP):
            produce()
        assert transport.last[error_at : error_at + 2] == b"\0\0", "a produce was refused"
        if switch is not None:
            switch.begin()
            repeat(produce, COUNTED)
            switch.end()
            peer.close()
            return 0.0
        found = []
        for _ in range(50):
            start = time.thread_time()
            repeat(produce, 100)
            found.append((time.thread_time() - start) / 100 * 1e6)
        peer.close()
        return min(found)


def repeat(act: Callable[[], None], count: int) -> None:
    for _ in range(count):
        act()


def executed(act: Callable[[], None]) -> tuple[int, int]:
    """Return the bytecodes that `act` runs, and its calls of Python functions. Both depend on the
    version of Python, and on nothing else."""
    bytecodes = calls = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal bytecodes, calls
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        bytecodes += event == "opcode"
        calls += event == "call"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return bytecodes, calls


def instructions(name: str, folder: Path, show: bool, module: str = "bench.produce_path") -> float:
    """Run a module like this one under valgrind. Return the instructions of one request."""
    source, library = folder / "switch.c", folder / "switch.so"
    source.write_text(_SWITCH)
    subprocess.run(  # noqa: S603
        ["/usr/bin/gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    out = folder / "callgrind.out"
    command = [
        *(
            "/usr/bin/valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={out}",
        ),
        *(sys.executable, "-m", module, name, "--library", str(library)),
    ]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)  # noqa: S603
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    dump = folder / "callgrind.out.1"
    if show:
        annotate = ["/usr/bin/callgrind_annotate", str(dump)]
        shown = subprocess.run(annotate, capture_output=True, text=True, check=True)  # noqa: S603
        print("\n".join(shown.stdout.splitlines()[:60]))
    total = _TOTAL.search(dump.read_text())
    assert total is not None
    return int(total[1]) / COUNTED


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.produce_path")
    parser.add_argument("loads", nargs="*")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = loads(folder)
        if given.library:
            asyncio.run(run(given.loads[0], ctypes.CDLL(given.library)))
            return
        print("| load | bytes | instructions a request | least CPU us |\n|-|-:|-:|-:|")
        for load in given.loads or known:
            counted = instructions(load, folder, given.functions)
            least = asyncio.run(run(load, None))
            print(f"| {load} | {len(known[load])} | {counted:,.0f} | {least:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
