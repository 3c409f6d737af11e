"""What a savepoint holds, and how it is kept.

`savepoint.json` is written last, so a directory without it is no savepoint. It has the app's
topology, the offset and the text of each input, the version of the rows of each store, and the
other files: for each partition of a changelog its newest records, and for each partition of a
repartition topic the records that are not processed. Those are record batches, as in Kafka's logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.records import BatchBuilder, Codec, iter_records
from moldau.streams.engine.batches import Outputs
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.topology import Topology, to_keep
from moldau.streams.plan.upgrade import kept_topology, misreading
from moldau.streams.problems import StateError, StreamsError, TopologyChanged
from moldau.streams.savepoint.place import SavepointPlace

MANIFEST: Final = "savepoint.json"
_FORM: Final = 1
_BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """Where an input is read on, and the text that is kept with the offset."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class SavedLog:
    """The file with the records of one partition."""

    file: str
    topic: str
    partition: int
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The stores and offsets of an app at one commit."""

    app: str
    created_ms: int
    topology: Topology
    counts: Mapping[str, int]
    """The partition counts of its inputs and internal topics."""
    offsets: Mapping[tuple[str, int], SavedOffset]
    """Of its inputs that are not its own topics, by topic and partition."""
    texts: Mapping[tuple[int, int], tuple[str, ...]]
    """What is kept with the offsets of each task, by program and partition."""
    versions: Mapping[str, int]
    """The version of the rows of each store, if it is not the first one."""
    logs: tuple[SavedLog, ...]


def save_log(place: SavepointPlace, records: Outputs, partition: int) -> SavedLog:
    """Write the records of a partition to a file of their own."""
    name = f"{records.topic}-{partition}.log"
    data = b"".join(_batches(records))
    place.write(name, data)
    return SavedLog(name, records.topic, partition, len(records), sha256(data).hexdigest())


def load_log(place: SavepointPlace, log: SavedLog) -> Outputs:
    """Return the records of a file. Raise StreamsError if it is not what was written."""
    data = place.read(log.file) if log.file in place.names() else b""
    if sha256(data).hexdigest() != log.sha256:
        raise StreamsError(
            f"savepoint={place.name}: the file {log.file} is missing or damaged: take another one"
        )
    found = Outputs(log.topic)
    for record in iter_records(data):
        found.keys.append(record.key)
        found.values.append(record.value)
        found.timestamps.append(record.timestamp)
        found.headers.append(record.headers)
    return found


def save(place: SavepointPlace, savepoint: Savepoint) -> None:
    """Write what makes the files a savepoint."""
    found = {
        "form": _FORM,
        "app": savepoint.app,
        "created_ms": savepoint.created_ms,
        "topology": json.loads(savepoint.topology.encoded()),
        "partitions": dict(savepoint.counts),
        "offsets": [
            [topic, partition, each.offset, each.text]
            for (topic, partition), each in savepoint.offsets.items()
        ],
        "texts": [[*task, *texts] for task, texts in savepoint.texts.items()],
        "versions": dict(savepoint.versions),
        "logs": [
            {"file": each.file, "topic": each.topic, "partition": each.partition,
             "records": each.records, "sha256": each.sha256}
            for each in savepoint.logs
        ],
    }  # fmt: skip
    place.write(MANIFEST, json.dumps(found, indent=1).encode())


def load(place: SavepointPlace) -> Savepoint:
    """Return the savepoint that is there. Raise StreamsError if there is none."""
    if MANIFEST not in place.names():
        raise StreamsError(f"savepoint={place.name}: there is none: it has no {MANIFEST}")
    try:
        found: Any = json.loads(place.read(MANIFEST))
        topology = Topology.decoded(json.dumps(found.get("topology")).encode())
        if found.get("form") == _FORM and topology is not None:
            return _savepoint(found, topology)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StreamsError(
            f"savepoint={place.name}: its {MANIFEST} is damaged: {type(error).__name__}: {error}: "
            "take another one"
        ) from error
    raise StreamsError(
        f"savepoint={place.name}: a newer moldau has taken it: restore it with that one"
    )


def require_same(what: str, before: Topology, plan: Plan) -> None:
    """Raise StateError if an app lacks something of this topology, or would misread rows of it.
    `what` begins the message."""
    try:
        to_keep(plan.app, before, kept_topology(plan), accepts_changes=False)
    except TopologyChanged as error:
        raise StateError(
            f"{what}: the app has no {', no '.join(error.gone)} any more: use the version of the "
            "app that had them, or give a renamed store its old name"
        ) from None
    for program in plan.programs:
        for store in program.stores:
            why = misreading(store, before.details.get(f"store {store.name}", {}))
            if why is not None:
                raise StateError(
                    f"{what} store={store.name}: {why}: use the version of the app that wrote them"
                )


def _savepoint(found: Any, topology: Topology) -> Savepoint:
    return Savepoint(
        found["app"],
        found["created_ms"],
        topology,
        found["partitions"],
        {(topic, at): SavedOffset(offset, text) for topic, at, offset, text in found["offsets"]},
        {(program, at): tuple(texts) for program, at, *texts in found["texts"]},
        found["versions"],
        tuple(SavedLog(**each) for each in found["logs"]),
    )


def _batches(records: Outputs) -> Iterator[bytes]:
    done = 0
    headers = [tuple(each) for each in records.headers]
    while done < len(records):
        builder = BatchBuilder(_BATCH_BYTES, codec=Codec.GZIP)
        count = builder.extend_columns(
            records.timestamps[done:],
            records.values[done:],
            records.keys[done:],
            headers[done:] or None,
        )
        if not count:  # one record of more than a batch
            size = sum(len(each[done] or b"") for each in (records.keys, records.values))
            builder = BatchBuilder(2 * size + _BATCH_BYTES, codec=Codec.GZIP)
            count = builder.extend_columns(
                records.timestamps[done : done + 1],
                records.values[done : done + 1],
                records.keys[done : done + 1],
                headers[done : done + 1] or None,
            )
        yield bytes(builder.build())
        done += count
