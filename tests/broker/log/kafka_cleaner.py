"""Lines for CleanLog.java, and what our own cleaner makes of the same logs.

Invariant: `answer` describes our log as CleanLog.java describes Kafka's. One difference is meant
and left out by `without_ends`: a new segment of ours ends where the old ones did, be it with an
empty batch of nobody, as Kafka's last one does.

`python -m tests.broker.log.kafka_cleaner` asks Kafka and keeps what it says.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Final

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.names import LOG, segment_file_name
from moldau.records import Batch
from tests.broker.log.cleaning import DAY_MS, clean, open_log, random_work
from tests.broker.log.producing import NOW
from tests.broker.log.simulated_node import SimulatedNode
from tests.peers.apache_kafka import ApacheKafka, fetch

KEPT_SEEDS: Final = range(8)
_JAVA: Final = Path(__file__).with_name("CleanLog.java")
_KEPT: Final = Path(__file__).with_name("cleaned_logs.json")
_DIRECTORY: Final = "/p/t-0"


def kept() -> list[list[str]]:
    """Lines, and what Kafka answered."""
    loaded: list[list[str]] = json.loads(_KEPT.read_text(encoding="ascii"))
    return loaded


def ask_kafka(kafka: ApacheKafka, lines: list[str]) -> list[str]:
    return kafka.run_source(_JAVA, lines)


def random_line(seed: int) -> str:
    """A log, and three rounds: at once, a little later, and when the tombstones' time is over."""
    node = SimulatedNode(seed)
    log = open_log(node.files)
    writer = random_work(log, Random(seed), 40)
    parts = [str(NOW)]
    for segment in log.segments:
        name = segment_file_name(segment.base_offset, LOG)
        data = node.disk.contents(f"{_DIRECTORY}/{name}")[: segment.size_bytes]
        parts.append(f"{segment.base_offset}={data.hex()}")
    stable = log.segments[log.segments.index_of(log.last_stable_offset)].base_offset
    now = writer.now_ms
    rounds = [(0, now), (stable // 2, now + 5), (0, now + 5 + DAY_MS)]
    return ";".join([*parts, *(f"{dirty} {at}" for dirty, at in rounds)])


def answer(line: str) -> str:
    """What our cleaner answers."""
    node = SimulatedNode()
    node.files.make_dirs(_DIRECTORY)
    answers = []
    log: PartitionLog | None = None
    for part in line.split(";")[1:]:
        if "=" in part:
            base, _, data = part.partition("=")
            name = segment_file_name(int(base), LOG)
            node.disk.put(f"{_DIRECTORY}/{name}", bytes.fromhex(data))
            continue
        if log is None:
            log = open_log(node.files)
            log.state.is_everywhere = True  # Kafka's cleaner does not wait for replicas
        dirty, now = map(int, part.split(" "))
        compaction = clean(log, now, cleaned_offset=dirty)
        answers.append(f"{compaction.end_offset}|{_describe_log(log)}")
    return ";".join(answers)


def without_ends(ours: str, kafkas: str) -> str:
    """Our answer without the empty batches that Kafka does not have."""
    rounds = zip(ours.split(";"), kafkas.split(";"), strict=True)
    return ";".join(_without_ends(our.split("|"), kafka.split("|")) for our, kafka in rounds)


def _without_ends(our: list[str], kafka: list[str]) -> str:
    return "|".join(each for each in our if each in kafka or not _is_empty(each))


def _is_empty(batch: str) -> bool:
    """An empty batch of nobody."""
    return "," not in batch and batch.split(" ")[4:7] == ["-1", "-1", "-1"]


def _describe_log(log: PartitionLog) -> str:
    said = []
    for segment in log.segments:
        said += [_describe(batch) for batch in segment.batches()]
    for segment in log.segments:
        for each in segment.transaction_index.all():
            said.append("aborted {} {} {} {}".format(*each))
    return "|".join(said)


def _describe(batch: Batch) -> str:
    header = batch.header
    horizon = header.delete_horizon_ms
    facts = (
        batch.codec.name.lower(),
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        str(header.is_transactional).lower(),
        str(header.is_control).lower(),
        -1 if horizon is None else horizon,
    )
    records = (
        f"{each.offset},{each.timestamp},{_hex(each.key)},{_hex(each.value)}"
        for each in batch.records()
    )
    return " ".join([*map(str, facts), *records])


def _hex(content: bytes | None) -> str:
    return "null" if content is None else content.hex()


if __name__ == "__main__":
    asked = [random_line(seed) for seed in KEPT_SEEDS]
    pairs = [list(pair) for pair in zip(asked, ask_kafka(fetch(), asked), strict=True)]
    _KEPT.write_text(json.dumps(pairs, indent=0) + "\n", encoding="ascii")
