"""`python -m tests.broker.main.chaos 50`: a real process, killed again and again under load.

Several clients append to several topics at once, each value once. The process is killed at a random
moment, started on what is left, and asked for everything: what was acknowledged stands at the
offset that was promised, no value stands twice, and none stands there that nobody sent.

Invariant: the page cache survives the death of a process, so nothing acknowledged may be lost,
fsync or not. What power loss does is for the simulator (`tests/broker/server/test_crashes.py`).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.broker.server.wire import Wire, wired

TOPICS = {"plain": {}, "synced": {"flush_messages": "1"}, "small": {"segment_bytes": "1048576"}}
PARTITIONS = 2
CLIENTS = 8
VALUE_BYTES = 2000
LOAD_SECONDS_MAX = 0.8

Place = tuple[str, int]


@dataclass
class Ledger:
    """What was sent, and what was promised at which offset."""

    sent: set[bytes] = field(default_factory=set)
    promised: dict[Place, dict[int, bytes]] = field(default_factory=dict)

    def check(self, place: Place, found: list[bytes]) -> None:
        """AssertionError says what is wrong with a partition."""
        for offset, value in self.promised.get(place, {}).items():
            assert offset < len(found), f"{place}: {len(found)} values, {offset} was promised"
            assert found[offset] == value, f"{place}: another value at {offset}"
        assert len(set(found)) == len(found), f"{place}: a value stands twice"
        assert self.sent.issuperset(found), f"{place}: a value that nobody sent"

    @property
    def promises(self) -> int:
        return sum(map(len, self.promised.values()))


class Chaos:
    """All lives of one directory."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = home
        self.random = Random(seed)
        self.ledger = Ledger()
        self.count = 0

    def life(self) -> None:
        """Start, check, load, kill."""
        with broker_process(self.home, "--log-level", "warn") as broker:
            run(lambda runtime: self._check(runtime, broker))
            run(lambda runtime: self._load(runtime, broker))
            broker.kill()

    def end(self) -> None:
        """One more look, and a clean stop."""
        with broker_process(self.home) as broker:
            run(lambda runtime: self._check(runtime, broker))
            code, log = broker.stop()
        assert code == 0, log

    async def _check(self, runtime: Runtime, broker: BrokerProcess) -> None:
        async with wired(runtime, broker.host, broker.port) as wire:
            for topic, configs in TOPICS.items():
                code = await wire.create(topic, PARTITIONS, **configs)
                assert code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                for partition in range(PARTITIONS):
                    found = await wire.fetch_all(topic, partition)
                    self.ledger.check((topic, partition), found)

    async def _load(self, runtime: Runtime, broker: BrokerProcess) -> None:
        seconds = self.random.random() * LOAD_SECONDS_MAX
        asyncio.get_running_loop().call_later(seconds, broker.process.kill)
        await asyncio.gather(*(self._client(runtime, broker) for _ in range(CLIENTS)))

    async def _client(self, runtime: Runtime, broker: BrokerProcess) -> None:
        try:
            async with wired(runtime, broker.host, broker.port) as wire:
                while True:
                    await self._append(wire)
        except (OSError, EOFError):
            return

    async def _append(self, wire: Wire) -> None:
        place = self.random.choice(tuple(TOPICS)), self.random.randrange(PARTITIONS)
        values = []
        for _ in range(self.random.choice((1, 1, 1, 10))):
            self.count += 1
            values.append(b"%d " % self.count + b"x" * self.random.randrange(VALUE_BYTES))
        self.ledger.sent.update(values)
        answer = await wire.produce(place[0], values, place[1], acks=self.random.choice((1, -1)))
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        promised = self.ledger.promised.setdefault(place, {})
        for offset, value in enumerate(values, answer.base_offset):
            assert offset not in promised, f"{place}: {offset} was promised before"
            promised[offset] = value


def chaos(lives: int, seed: int, home: Path) -> Chaos:
    """So many lives; AssertionError when a promise was broken."""
    story = Chaos(home, seed)
    for _ in range(lives):
        story.life()
    story.end()
    return story


def main(lives: int = 50, seed: int = 0) -> None:
    """With a line for each life, since it takes a while."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moldau-chaos-") as home:
        story = Chaos(Path(home), seed)
        for life in range(1, lives + 1):
            story.life()
            print(f"life {life:3}: {story.ledger.promises} records acknowledged", flush=True)
        story.end()
    seconds = time.monotonic() - began
    print(f"{lives} kills in {seconds:.0f} s, seed {seed}: nothing acknowledged was lost")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
