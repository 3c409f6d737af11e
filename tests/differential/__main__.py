"""Kafka's answers anew, and what is left to be explained.

python -m tests.differential renew [SCENARIO ...]    asks Apache Kafka, keeps what it answers
python -m tests.differential renew streams           asks Kafka Streams' test driver
python -m tests.differential show [SCENARIO ...]     every difference, explained or not
python -m tests.differential real [SCENARIO ...]     the same outside of the simulator
python -m tests.differential record [CLIENT ...]     real clients with Apache Kafka, recorded
python -m tests.differential document                writes docs/compatibility.md
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from moldau.runtime.node_processes import free_ports
from tests.differential import document, kept, recorder
from tests.differential.clients import CLIENTS
from tests.differential.comparison import ORDER, differences, not_the_same_cases
from tests.differential.explained import explanation
from tests.differential.peers import SETTINGS, talk_to_kafka, talk_to_ours
from tests.differential.scenarios import scenarios
from tests.differential.talk import Entry
from tests.peers.apache_kafka import PeerMissing, fetch
from tests.peers.kafka_broker import HOST, BrokerOptions, KafkaBroker
from tests.streams.kafka import renew as streams

STREAMS = "streams"


def renew(names: Sequence[str]) -> int:
    """Plays scenarios to Kafka and keeps the transcripts; says what it answers otherwise now."""
    try:
        kafka = fetch()
    except PeerMissing as missing:
        print(f"Kafka's answers stay as they are: {missing}")
        return 1
    for name in names:
        described = scenarios()[name]
        before = kept.read(name)
        now = talk_to_kafka(described.play, described.settings, kafka).entries
        kept.write(name, _as_before(name, before, now))
        print(f"{name}: {len(now)} answers, {_changed(name, before, now)}")
    return 0


def _as_before(name: str, before: Sequence[Entry], now: Sequence[Entry]) -> list[Entry]:
    """Rows that only stand in another order are left as they were: Kafka's order is chance."""
    known = {(entry.label, entry.version, entry.asked): entry for entry in before}
    return [_unless_shuffled(name, known.get((e.label, e.version, e.asked)), e) for e in now]


def _unless_shuffled(name: str, before: Entry | None, now: Entry) -> Entry:
    if before is None:
        return now
    paths = [each.path for each in differences(name, [before], [now])]
    return before if paths and all(path.endswith(ORDER) for path in paths) else now


def _changed(name: str, before: Sequence[Entry], now: Sequence[Entry]) -> str:
    others = {entry.label for entry in before} ^ {entry.label for entry in now}
    known = {(entry.label, entry.version): entry for entry in before}
    both = [entry for entry in now if (entry.label, entry.version) in known]
    pairs = differences(name, [known[e.label, e.version] for e in both], both)
    found = [str(each) for each in pairs if not each.path.endswith(ORDER)]
    lines = "".join(f"\n  (kafka: before, ours: now) {each}" for each in found)
    return f"{len(others)} cases come or go, {len(found)} values differ from before{lines}"


def show(names: Sequence[str], arena: str = "simulated") -> int:
    """Plays scenarios to our broker and prints each difference with its reason."""
    unexplained = 0
    for name in names:
        described = scenarios()[name]
        ours = talk_to_ours(described.play, described.settings, arena).entries
        theirs = kept.read(name)
        if others := not_the_same_cases(theirs, ours):
            print(f"{name}: run `make differential`, other cases: {', '.join(others)}")
            unexplained += 1
            continue
        for each in differences(name, theirs, ours):
            reason = explanation(each)
            unexplained += reason is None
            print(f"{'!!' if reason is None else 'ok'} {each}")
            if reason is not None:
                print(f"     {reason.what}")
        print(f"{name}: {len(ours)} answers")
    print(f"{unexplained} are not explained")
    return int(unexplained > 0)


def record(names: Sequence[str]) -> int:
    """Lets clients talk to Kafka and keeps what they say."""
    try:
        kafka = fetch()
    except PeerMissing as missing:
        print(f"the recordings stay as they are: {missing}")
        return 1
    for name in names:
        (proxy_port,) = free_ports(1)
        own = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{HOST}:{proxy_port}"}
        with tempfile.TemporaryDirectory(prefix="kafka-recorded-") as folder:
            options = BrokerOptions(properties=own)
            with KafkaBroker.started(kafka, Path(folder), options) as broker:
                recording = recorder.record(broker, proxy_port, CLIENTS[name])
        recording.write(name)
        print(f"{name}: {len(recording.exchanges)} requests")
    return 0


def _renew_all(names: Sequence[str]) -> int:
    """The broker's scenarios and the scripts of Streams, or those that are named."""
    chosen = list(names) or [*scenarios(), STREAMS]
    failed = renew([name for name in chosen if name != STREAMS])
    return (streams.renew([]) if STREAMS in chosen else 0) or failed


def main(arguments: Sequence[str]) -> int:
    command, *names = arguments or ["help"]
    chosen = names or list(scenarios())
    if command == "renew":
        return _renew_all(names)
    if command == "show":
        return show(chosen)
    if command == "real":
        return show(chosen, "asyncio")
    if command == "record":
        return record(names or list(CLIENTS))
    if command == "document":
        document.write()
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
