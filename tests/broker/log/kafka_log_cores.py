"""Lines for LogCores.java, and what our own classes answer to them.

Invariant: `answer` says of our classes what LogCores.java says of Kafka's, word for word, so the
kept answers of Kafka (log_cores.json) are a test without Java, and a fresh run is one with it.
`python -m tests.broker.log.kafka_log_cores` asks Kafka and keeps what it says.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Final, Protocol

from moldau.broker.log.checkpoint import write_pairs
from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.producer_snapshot import ProducerSnapshots, decode_snapshot, encode_snapshot
from moldau.broker.log.producer_state import (
    BatchMetadata,
    Origin,
    ProducerState,
    ProducerStateEntry,
)
from moldau.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from moldau.errors import CorruptLog
from moldau.errors.codes import KafkaError
from moldau.records import open_batch
from tests.broker.log.producing import NOW, data_batch, marker_batch
from tests.broker.log.simulated_node import SimulatedNode
from tests.peers.apache_kafka import ApacheKafka, fetch

EXPIRATION_MS: Final = 1000
KEPT_SEEDS: Final = range(8)
KEPT_STEPS: Final = 40
_JAVA: Final = Path(__file__).with_name("LogCores.java")
_KEPT: Final = Path(__file__).with_name("log_cores.json")


def kept() -> list[list[str]]:
    """Lines, and what Kafka answered."""
    loaded: list[list[str]] = json.loads(_KEPT.read_text(encoding="ascii"))
    return loaded


def ask_kafka(kafka: ApacheKafka, lines: list[str]) -> list[str]:
    """What Kafka's classes answer."""
    return kafka.run_source(_JAVA, lines)


def answer(line: str) -> str:
    """What our classes answer."""
    kind, _, rest = line.partition(":")
    if kind == "snapshot":
        return _read_snapshot(bytes.fromhex(rest))
    answering: _Answering
    if kind == "producers":
        answering = _Producers()
    else:
        answering = _Index() if kind == "index" else _Epochs()
    return ";".join(answering.answer(step) for step in rest.split(";"))


def random_lines(seeds: range, steps: int) -> list[str]:
    """Scenarios of every kind."""
    made = []
    for seed in seeds:
        random = Random(seed)
        made += [
            "producers:" + ";".join(_producer_steps(random, steps)),
            "index:" + ";".join(_index_steps(random, steps)),
            "epochs:" + ";".join(_epoch_steps(random, steps)),
            "snapshot:" + _snapshot(random).hex(),
        ]
    return made


class _Answering(Protocol):
    def answer(self, step: str) -> str: ...


class _Producers:
    def __init__(self) -> None:
        self.node = SimulatedNode()
        self.state = ProducerState(EXPIRATION_MS)

    def answer(self, step: str) -> str:
        kind, *words = step.split(" ")
        said = "ok"
        if kind == "batch":
            said = self._append(words)
        elif kind == "replicated":
            self.state.on_high_watermark(int(words[0]))
        elif kind == "expire":
            self.state.expire(int(words[0]))
        else:
            said = self._restart(int(words[0]))
        stable = (self.state.first_unstable_offset, self.state.first_undecided_offset)
        return said + " " + "/".join("-1" if each is None else str(each) for each in stable)

    def _append(self, words: list[str]) -> str:
        append = self.state.prepare(Origin[words[0]], transaction_version=int(words[1]))
        try:
            duplicate = append.add(open_batch(bytes.fromhex(words[2])))
        except KafkaError as error:
            return error.code.name
        if duplicate is not None:
            facts = (duplicate.first_offset, duplicate.last_offset, duplicate.timestamp)
            return "duplicate {} {} {}".format(*facts)
        aborted = self.state.commit(append)
        return "aborted {} {} {} {}".format(*aborted[0]) if aborted else "ok"

    def _restart(self, now_ms: int) -> str:
        snapshots = ProducerSnapshots(self.node.files, "/p")
        snapshots.take(self.state, sync=False)
        data = self.node.disk.contents(snapshots.path(self.state.end_offset))
        self.state = ProducerState(EXPIRATION_MS)
        snapshots = ProducerSnapshots(self.node.files, "/p")
        assert not snapshots.load_latest(self.state, 0, now_ms)
        return data.hex()


class _Index:
    def __init__(self) -> None:
        self.node = SimulatedNode()
        self.index = TransactionIndex(self.node.files, "/p/0.txnindex", 0)

    def answer(self, step: str) -> str:
        kind, *words = step.split(" ")
        numbers = [int(word) for word in words]
        if kind == "collect":
            found, complete = self.index.collect(numbers[0], numbers[1])
            listed = ",".join("{} {} {} {}".format(*each) for each in found)
            return f"{listed} {str(complete).lower()}"
        if kind == "append":
            self.index.append(AbortedTransaction._make(numbers))
        else:
            self.index.truncate_to(numbers[0])
        self.index.check()
        self.index.close()
        exists = self.node.files.exists(self.index.path)
        return self.node.disk.contents(self.index.path).hex() if exists else ""


class _Epochs:
    def __init__(self) -> None:
        self.node = SimulatedNode()
        self.epochs = LeaderEpochs()

    def answer(self, step: str) -> str:
        kind, *words = step.split(" ")
        numbers = [int(word) for word in words]
        if kind == "end-of":
            return "{} {}".format(*self.epochs.end_offset_for(numbers[0], numbers[1]))
        if kind == "epoch-at":
            epoch = self.epochs.epoch_for_offset(numbers[0])
            return "-1" if epoch is None else str(epoch)
        if kind == "assign":
            self.epochs.assign(numbers[0], numbers[1])
        elif kind == "from-end":
            self.epochs.truncate_from_end(numbers[0])
        else:
            self.epochs.truncate_from_start(numbers[0])
        path = "/p/leader-epoch-checkpoint"
        write_pairs(self.node.files, path, self.epochs.entries)
        return self.node.files.read_text(path).replace("\n", ",")


def _read_snapshot(data: bytes) -> str:
    try:
        entries = decode_snapshot(data)
    except CorruptLog:
        return "corrupt"
    return ",".join(_describe(entry) for entry in entries)


def _describe(entry: ProducerStateEntry) -> str:
    transaction = entry.transaction_first_offset
    first_offset = entry.batches[0].first_offset if entry.batches else -1
    facts = (
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        -1 if transaction is None else transaction,
        first_offset,
        entry.last_data_offset,
    )
    return " ".join(map(str, facts))


def _producer_steps(random: Random, count: int) -> list[str]:
    """Mostly what goes well, with all that can go wrong in between.

    Replicated batches are those that a leader may have written. Compaction's empty control batches
    are left out: from those we take the epoch and Kafka does not.
    """
    steps: list[str] = []
    offset = 0
    ours = _Producers()
    now = NOW
    while len(steps) < count:
        now += random.randrange(200)
        drawn = random.random()
        if drawn < 0.08:
            step = f"replicated {random.randrange(max(0, offset - 8), offset + 1)}"
        elif drawn < 0.12:
            step = f"expire {now + random.choice((0, 500, 5000))}"
        elif drawn < 0.16 and offset:
            step = f"restart {now}"
        else:
            entry = ours.state.entries.get(producer_id := random.randrange(4))
            step = _batch_step(random, entry or ProducerStateEntry(producer_id), offset, now)
        answered = ours.answer(step)
        if step.startswith("batch") and answered.startswith(("ok", "aborted")):
            offset = ours.state.end_offset
        steps.append(step)
    return steps


def _batch_step(random: Random, entry: ProducerStateEntry, offset: int, now: int) -> str:
    epoch = max(0, entry.epoch + random.choice((0, 0, 0, 0, 0, 1, -1)))
    if random.random() < 0.25:
        batch = marker_batch(
            entry.producer_id,
            epoch,
            offset=offset,
            abort=random.random() < 0.5,
            coordinator_epoch=max(0, entry.coordinator_epoch + random.choice((0, 0, 0, 1, -1))),
            timestamp=now,
        )
        return f"batch COORDINATOR {random.randrange(3)} {batch.data.hex()}"
    sequence = (entry.last_sequence + 1) & 0x7FFFFFFF if epoch == entry.epoch else 0
    count = random.randrange(1, 5)
    if random.random() < 0.15 and entry.batches:
        again = random.choice(entry.batches)
        sequence = (again.last_sequence - again.offset_delta) & 0x7FFFFFFF
        count = again.offset_delta + 1
    elif random.random() < 0.1:
        wrong = (0, (sequence + 1) & 0x7FFFFFFF, 2**31 - 2, max(0, sequence - 1))
        sequence = random.choice(wrong)
    elif entry.epoch < 0:
        sequence = random.choice((0, 2**31 - 3))
    batch = data_batch(
        entry.producer_id,
        epoch,
        sequence,
        count,
        transactional=random.random() < (0.4 if entry.transaction_first_offset is None else 0.9),
        place=(offset, now),
    )
    is_outside = entry.transaction_first_offset is not None and not batch.header.is_transactional
    origins = ("CLIENT",) * 4 if is_outside else ("CLIENT", "CLIENT", "CLIENT", "REPLICATION")
    return f"batch {random.choice(origins)} 0 {batch.data.hex()}"


def _index_steps(random: Random, count: int) -> list[str]:
    steps, last = [], 0
    for _ in range(count):
        drawn = random.random()
        if drawn < 0.5:
            last += random.randrange(1, 20)
            first = random.randrange(max(0, last - 40), last)
            stable = random.randrange(first, last + 2)
            steps.append(f"append {random.randrange(9)} {first} {last} {stable}")
        elif drawn < 0.9:
            start = random.randrange(last + 5)
            steps.append(f"collect {start} {start + random.randrange(1, 60)}")
        else:
            last = max(0, last - random.randrange(30))
            steps.append(f"truncate {last}")
    return steps


def _epoch_steps(random: Random, count: int) -> list[str]:
    steps, epoch, end = [], 0, 0
    for _ in range(count):
        drawn = random.random()
        if drawn < 0.4:
            epoch += random.choice((0, 1, 1, 2, 3))
            end += random.choice((0, 1, 5, 20))
            wrong = random.random() < 0.1
            steps.append(f"assign {max(0, epoch - 2 * wrong)} {max(0, end - 30 * wrong)}")
        elif drawn < 0.5:
            end = max(0, end - random.randrange(20))
            steps.append(f"from-end {end}")
        elif drawn < 0.6:
            steps.append(f"from-start {random.randrange(end + 1)}")
        elif drawn < 0.8:
            steps.append(f"end-of {random.randrange(-1, epoch + 3)} {end + 7}")
        else:
            steps.append(f"epoch-at {random.randrange(end + 5)}")
    return steps


def _snapshot(random: Random) -> bytes:
    """A snapshot file, whole or with a bit flipped or an end missing."""
    entries = [
        ProducerStateEntry(
            producer_id,
            random.randrange(0, 2**15),
            random.randrange(-1, 9),
            random.randrange(-1, 2**50),
            random.choice((None, random.randrange(2**40))),
            random.choice(
                ((), (BatchMetadata(random.randrange(2**31), random.randrange(50, 2**40), 9, NOW),))
            ),
        )
        for producer_id in range(random.randrange(6))
    ]
    data = bytearray(encode_snapshot(entries))
    damage = random.randrange(3)
    if damage == 1:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif damage == 2:
        del data[random.randrange(len(data)) :]
    return bytes(data)


def _keep(lines: list[str], answers: list[str]) -> None:
    pairs = [list(pair) for pair in zip(lines, answers, strict=True)]
    _KEPT.write_text(json.dumps(pairs, indent=0) + "\n", encoding="ascii")


if __name__ == "__main__":
    asked = random_lines(KEPT_SEEDS, KEPT_STEPS)
    _keep(asked, ask_kafka(fetch(), asked))
