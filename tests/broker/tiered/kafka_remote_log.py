"""Lines for RemoteLogCores.java, and what our own classes answer to them.

Invariant: `answer` says of our classes what RemoteLogCores.java says of Kafka's, word for word, so
the kept answers of Kafka (remote_log.json) are a test without Java, and a fresh run is one with it.
`python -m tests.broker.tiered.kafka_remote_log` asks Kafka and keeps what it says.

In the histories of `cache` segments follow each other. In those of `overlaps` leaders copy again
what others have copied, also after unclean elections. There ours may serve an offset from another
segment than Kafka, and some offsets that Kafka leaves unserved, but never less.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.tiered.metadata_records import decode, encode, metadata_partition
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import (
    DELETION_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    DeletionState,
    PartitionDeletion,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    SegmentUpdate,
)
from moldau.protocol.schemas.framed_log import REMOTE_LOG
from moldau.protocol.schemas.storage import (
    RemoteLogSegmentMetadataSnapshotRecord,
    SegmentLeaderEpochEntry,
)
from tests.broker.tiered.segments import changed, number_of, segment
from tests.peers.apache_kafka import ApacheKafka, fetch

KEPT_SEEDS: Final = range(3)
_JAVA: Final = Path(__file__).with_name("RemoteLogCores.java")
_KEPT: Final = Path(__file__).with_name("remote_log.json")


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
    remote = RemotePartition()
    return ";".join(_answer(kind, step, remote) for step in rest.split(";"))


def _answer(kind: str, step: str, remote: RemotePartition) -> str:
    match kind:
        case "record":
            event = decode(bytes.fromhex(step))
            return f"{_facts(event)} {encode(event).hex()}"
        case "snapshot":
            record, version = REMOTE_LOG.decode(bytes.fromhex(step))
            assert isinstance(record, RemoteLogSegmentMetadataSnapshotRecord)
            return f"{_snapshot_facts(record)} {REMOTE_LOG.encode(record, version).hex()}"
        case "partition":
            topic_id, partition, count = step.split(" ")
            found = metadata_partition(bytes.fromhex(topic_id), int(partition), int(count))
            return str(found)
        case "states":
            return _table(SEGMENT_TRANSITIONS if step == "segment" else DELETION_TRANSITIONS)
        case _:
            return _cached(remote, step.split(" "))


def _table(table: Mapping[Any, frozenset[Any]]) -> str:
    froms = ((-1 if state is None else int(state), nexts) for state, nexts in table.items())
    return " ".join(f"{at}>{int(to)}" for at, nexts in froms for to in sorted(nexts))


def _facts(event: RemoteEvent) -> str:
    if isinstance(event, PartitionDeletion):
        where = (event.topic, event.topic_id.hex(), event.partition)
        by = (event.broker_id, event.event_ms)
        return " ".join(map(str, ("deletion", *where, *by, int(event.state))))
    custom = "none" if event.custom_metadata is None else f"x{event.custom_metadata.hex()}"
    named = (event.topic, event.id.topic_id.hex(), event.id.partition, event.id.id.hex())
    by = (event.broker_id, event.event_ms)
    if isinstance(event, SegmentUpdate):
        return " ".join(map(str, ("update", *named, *by, custom, int(event.state))))
    facts = (
        "segment",
        *named,
        *by,
        event.start_offset,
        event.end_offset - 1,
        event.max_timestamp_ms,
        event.size_bytes,
        ",".join(f"{epoch}@{start}" for epoch, start in event.leader_epochs),
        custom,
        int(event.state),
        str(not event.has_transaction_index).lower(),
    )
    return " ".join(map(str, facts))


def _snapshot_facts(record: RemoteLogSegmentMetadataSnapshotRecord) -> str:
    custom = record.custom_metadata
    facts = (
        "snapshot",
        record.segment_id.hex(),
        record.broker_id,
        record.event_timestamp_ms,
        record.start_offset,
        record.end_offset,
        record.max_timestamp_ms,
        record.segment_size_in_bytes,
        ",".join(f"{each.leader_epoch}@{each.offset}" for each in record.segment_leader_epochs),
        "none" if custom is None else f"x{custom.hex()}",
        record.remote_log_segment_state,
        str(record.txn_index_empty).lower(),
    )
    return " ".join(map(str, facts))


def _cached(remote: RemotePartition, words: list[str]) -> str:
    kind, first, *more = words
    if kind == "start":
        start, end, epochs, is_empty = more
        pairs = [(int(each.split("@")[0]), int(each.split("@")[1])) for each in epochs.split(",")]
        offsets = range(int(start), int(end) + 1)
        has_index = is_empty == "false"
        remote.replay(segment(int(first), offsets, pairs, has_transaction_index=has_index))
        return "ok"
    if kind == "state":
        remote.replay(changed(int(first), SegmentState(int(more[0]))))
        return "ok"
    if kind == "highest":
        end_offset = remote.end_offset_of(int(first))
        return "-" if end_offset is None else str(end_offset - 1)
    number = number_of(remote.segment_for(int(first), int(more[0])))
    return "-" if number is None else str(number)


def random_lines(seeds: range) -> list[str]:
    """Lines of every kind."""
    lines = ["states:segment;partition"]
    for seed in seeds:
        random = Random(seed)
        lines += [
            "record:" + ";".join(encode(random_event(random)).hex() for _ in range(30)),
            "snapshot:" + ";".join(_snapshot(random).hex() for _ in range(10)),
            "partition:" + ";".join(_partition(random) for _ in range(30)),
            "overlaps:" + ";".join(_history(random, has_overlaps=True)),
            "cache:" + ";".join(_history(random, has_overlaps=False)),
        ]
    return lines


def random_event(random: Random) -> RemoteEvent:
    """An event with extremes."""
    topic = random.choice(("t", "orders.eu-west_1", "x" * 249))
    named = SegmentId(random.randbytes(16), random.choice((0, 7, 2**31 - 1)), random.randbytes(16))
    when = random.choice((-1, 0, random.randrange(2**42), 2**63 - 1))
    broker_id = random.choice((0, 3, 2**31 - 1))
    custom = random.choice((None, b"", random.randbytes(random.randrange(1, 128))))
    match random.randrange(3):
        case 0:
            deletion = random.choice(list(DeletionState))
            where = (named.topic_id, named.partition, topic)
            return PartitionDeletion(*where, deletion, broker_id, when)
        case 1:
            state = random.choice(list(SegmentState)[1:])
            return SegmentUpdate(named, topic, state, broker_id, when, custom)
        case _:
            start = random.choice((0, random.randrange(2**40)))
            epochs = sorted(random.sample(range(50), random.randrange(1, 6)))
            starts = [start, *sorted(random.sample(range(start + 1, start + 900), len(epochs) - 1))]
            return RemoteSegment(
                named,
                topic,
                start,
                start + random.randrange(900, 5000),
                random.choice((-1, random.randrange(2**42))),
                random.choice((0, 2**31 - 1, random.randrange(2**30))),
                tuple(map(EpochEntry, epochs, starts)),
                broker_id,
                when,
                random.choice(list(SegmentState)),
                custom,
                has_transaction_index=random.random() < 0.5,
            )


def _snapshot(random: Random) -> bytes:
    start = random.randrange(2**40)
    epochs = enumerate(sorted(random.sample(range(900), random.randrange(1, 5))))
    record = RemoteLogSegmentMetadataSnapshotRecord(
        segment_id=random.randbytes(16),
        start_offset=start,
        end_offset=start + 900,
        broker_id=random.randrange(9),
        max_timestamp_ms=random.randrange(2**42),
        event_timestamp_ms=random.randrange(2**42),
        segment_leader_epochs=[
            SegmentLeaderEpochEntry(leader_epoch=epoch, offset=start + offset)
            for epoch, offset in epochs
        ],
        segment_size_in_bytes=random.randrange(2**31),
        custom_metadata=random.choice((None, random.randbytes(9))),
        remote_log_segment_state=random.randrange(4),
        txn_index_empty=random.random() < 0.5,
    )
    return REMOTE_LOG.encode(record, 0)


def _partition(random: Random) -> str:
    topic_id = random.choice((random.randbytes(16), b"\xff" * 16))
    count = random.choice((1, 3, 50, 50, 50, 997))
    return f"{topic_id.hex()} {random.randrange(1000)} {count}"


def _history(random: Random, *, has_overlaps: bool) -> list[str]:
    """What several leaders copied, and look-ups between."""
    steps: list[str] = []
    chain = [(0, 0)]
    copied = 0
    served: list[int] = []
    for number in range(1, 21):
        if random.random() < 0.3 and copied > chain[-1][1]:
            cut = has_overlaps and random.random() < 0.3
            starts = random.randrange(chain[-1][1] + 1, copied + 1) if cut else copied
            chain.append((chain[-1][0] + random.randint(1, 2), starts))
            copied = starts
        back = random.randrange(30) if has_overlaps and random.random() < 0.5 else 0
        start = max(0, copied - back)
        end = copied + random.randrange(5, 40)
        steps.append(f"start {number} {start} {end - 1} {_between(chain, start, end)} true")
        if random.random() < 0.85:
            steps.append(f"state {number} 1")
            served.append(number)
            copied = end
        if not has_overlaps and served and random.random() < 0.3:
            gone = served.pop(0)
            steps += [f"state {gone} 2", *([f"state {gone} 3"] * random.randint(0, 2))]
            steps.append(f"state {gone} 1")
        elif random.random() < 0.2:
            steps += [f"state {random.randrange(1, number + 3)} 3", f"state {number + 9} 1"]
        steps += _look_ups(random, chain, copied, asks_ends=has_overlaps)
    return steps


def _between(chain: Sequence[tuple[int, int]], start: int, end: int) -> str:
    ends = [*(each for _, each in chain[1:]), end]
    within = [
        f"{epoch}@{max(start, first)}"
        for (epoch, first), last in zip(chain, ends, strict=True)
        if max(start, first) < min(last, end)
    ]
    return ",".join(within)


def _look_ups(
    random: Random, chain: Sequence[tuple[int, int]], end: int, *, asks_ends: bool
) -> list[str]:
    steps = []
    for _ in range(4):
        epoch = random.choice(chain)[0] + random.choice((0, 0, 0, 1))
        steps.append(f"find {epoch} {random.randrange(end + 10)}")
        if asks_ends:
            steps.append(f"highest {epoch}")
    return steps


def _keep(lines: list[str], answers: list[str]) -> None:
    pairs = [list(pair) for pair in zip(lines, answers, strict=True)]
    _KEPT.write_text(json.dumps(pairs, indent=0) + "\n", encoding="ascii")


if __name__ == "__main__":
    asked = random_lines(KEPT_SEEDS)
    _keep(asked, ask_kafka(fetch(), asked))
