"""The connectors of a case: their configs, and a worker for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from tests.conformance.broker import MoldauBroker
from tests.connect.pairs.columns import reads_files
from tests.connect.pairs.model import ADDED, Case
from tests.connect.processes import Worker, command
from tests.databases.target import TestDatabase

_numbers: Final = count(1)
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_STORAGE: Final = "org.apache.kafka.connect.storage"
_CONVERTERS: Final[Mapping[str, Mapping[str, str]]] = {
    "json with schemas": {"": _JSON},
    "plain json": {"": _JSON, ".schemas.enable": "false"},
    "avro": {"": "io.confluent.connect.avro.AvroConverter"},
    # Without it a text that is null becomes an empty one, as in Java.
    "protobuf": {
        "": "io.confluent.connect.protobuf.ProtobufConverter",
        ".optional.for.nullables": "true",
    },
    "json schema": {"": "io.confluent.connect.json.JsonSchemaConverter"},
    "string": {"": f"{_STORAGE}.StringConverter"},
}
_REGISTERED: Final = ("avro", "protobuf", "json schema")
_TRANSFORMS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "none": {},
    "insert": {"a": {"type": "InsertField$Value", "static.field": "region", "static.value": ADDED}},
    "cast": {"a": {"type": "Cast$Value", "spec": "amount:string"}},
    "replace": {"a": {"type": "ReplaceField$Value", "exclude": "name"}},
    "rename": {"a": {"type": "ReplaceField$Value", "renames": "name:title"}},
    "mask": {"a": {"type": "MaskField$Value", "fields": "name"}},
    "key": {
        "a": {"type": "ValueToKey", "fields": "id"},
        "b": {"type": "ExtractField$Key", "field": "id"},
    },
    "route": {"a": {"type": "RegexRouter", "regex": "(.*)-item", "replacement": "$1-routed"}},
}


class Chain:
    """The connectors of a case."""

    def __init__(self, broker: MoldauBroker, registry: str, folder: Path, case: Case) -> None:
        self.broker = broker
        self.case = case
        self.name = f"pairs{next(_numbers)}"
        self.topic = f"{self.name}-{'routed' if case['transform'] == 'route' else 'item'}"
        self.origin = folder / f"{self.name}-in"
        """The file that the source reads, or the folder of its files."""
        self.end = folder / f"{self.name}-out"
        """The file that the sink writes, or the folder of its files."""
        self.dead = f"{self.name}-dead"
        self._converter = {
            f"value.converter{name}": value
            for name, value in _CONVERTERS[case["converter"]].items()
        }
        if case["converter"] in _REGISTERED:
            self._converter["value.converter.schema.registry.url"] = registry
        if case["transform"] == "key":
            # A whole number of a table has four bytes, of SQLite and of files it has eight.
            has_eight = case["database"] == "sqlite" or reads_files(case)
            number = "Long" if has_eight else "Integer"
            converter = f"org.apache.kafka.connect.converters.{number}Converter"
            self._converter["key.converter"] = converter

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        once = "enabled" if self.case["once"] == "exactly" else "disabled"
        given = {
            "group.id": self.name,
            "config.storage.topic": f"{self.name}-configs",
            "offset.storage.topic": f"{self.name}-offsets",
            "status.storage.topic": f"{self.name}-status",
            "offset.storage.partitions": "2",
            "offset.flush.interval.ms": "200",
            "errors.restart.backoff.ms": "100",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
            "exactly.once.source.support": once,
            "key.converter": f"{_STORAGE}.StringConverter",
            "value.converter": f"{_STORAGE}.StringConverter",
        }
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        with command(
            "start", "--bootstrap", self.broker.bootstrap_servers, "--listen", "127.0.0.1:0",
            *words, environment={},
        ) as worker:  # fmt: skip
            yield worker

    def source(self, database: TestDatabase) -> dict[str, str]:
        transforms = _TRANSFORMS[self.case["transform"]]
        named = {
            f"transforms.{name}.{key}": value
            for name, keys in transforms.items()
            for key, value in keys.items()
        }
        chosen = {"transforms": ",".join(transforms)} if transforms else {}
        reading = self._files() if reads_files(self.case) else self._table(database)
        return {**reading, **self._converter, **chosen, **named}

    def _table(self, database: TestDatabase) -> dict[str, str]:
        mode = self.case["source"]
        keys = {"incrementing.column.name": "id", "timestamp.column.name": "changed"}
        return {
            "connector.class": "JdbcSource",
            "connection.url": database.url,
            "connection.backoff.ms": "200",
            "mode": mode,
            **{name: column for name, column in keys.items() if name.split(".")[0] in mode},
            "table.whitelist": "item",
            "topic.prefix": f"{self.name}-",
            "poll.interval.ms": "50",
            "batch.max.rows": "20",
        }

    def _files(self) -> dict[str, str]:
        kind = self.case["source"]
        is_folder = kind == "parquet"
        where = (
            {"file.glob": f"{self.origin}/*.parquet"} if is_folder else {"file": str(self.origin)}
        )
        return {
            "connector.class": "FileStreamSource",
            **where,
            "format": kind,
            "topic": f"{self.name}-item",
            "batch.size": "20",
        }

    def sink(self, database: TestDatabase) -> dict[str, str]:
        case = self.case
        given = {"topics": self.topic, **self._converter}
        if case["tolerance"] != "none":
            given["errors.tolerance"] = "all"
        if case["tolerance"] == "dead letters":
            given["errors.deadletterqueue.topic.name"] = self.dead
            given["errors.deadletterqueue.topic.replication.factor"] = "1"
        if case["sink"] in ("lines", "jsonl"):
            where = {"file": str(self.end), "format": case["sink"]}
            return {**given, "connector.class": "FileStreamSink", **where}
        if case["sink"] in ("rolls", "parquet"):
            return {
                **given,
                "connector.class": "FileStreamSink",
                "directory": str(self.end),
                "format": "jsonl" if case["sink"] == "rolls" else "parquet",
                "flush.size": "20",
                "rotate.interval.ms": "300",
            }
        return {
            **given,
            **self._keys(),
            "connector.class": "JdbcSink",
            "connection.url": database.url,
            "connection.backoff.ms": "200",
            "retry.backoff.ms": "200",
            "table.name.format": "copies",
            "insert.mode": "upsert" if case["sink"] == "upsert" else "insert",
            "exactly.once": str(case["sink"] == "exact insert").lower(),
            "auto.create": "true",
            "auto.evolve": "true",
        }

    def _keys(self) -> dict[str, str]:
        if self.case["sink"] != "upsert":
            return {}
        mode = "record_key" if self.case["transform"] == "key" else "record_value"
        return {"pk.mode": mode, "pk.fields": "id"}
