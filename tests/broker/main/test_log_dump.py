"""`moldau log dump` over files that moldau wrote, that Kafka wrote, and that are damaged."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.log.checkpoint import write_offsets
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.producer_snapshot import encode_snapshot
from moldau.broker.log.producer_state import BatchMetadata, ProducerStateEntry
from moldau.broker.main.log_command import command
from moldau.cli.command import Context
from moldau.cli.parser import Parser
from moldau.client import Admin, NewTopic, Producer
from moldau.errors.amounts import counted
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.records import Codec, ControlType, encode_batch, encode_control_batch
from moldau.runtime.real_files import RealFiles
from tests.broker.main.no_plugins import no_plugins
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

LOG = "00000000000000000000.log"


def dump(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    context = Context(out, err, {}, no_plugins)
    parser = Parser(out=out, prog="moldau log")
    command.configure(parser)
    code = command.run(parser.parse_args(["dump", *words]), context)
    return code, out.getvalue(), err.getvalue()


def items(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump(*words, "--json")[1].splitlines()]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    rows = [(1000 + n, b"k%d" % n, b"v%d" % n, (("h", b"x"),)) for n in range(3)]
    data = encode_batch(rows, 0, codec=Codec.ZSTD) + encode_batch(rows, 3)
    (folder / LOG).write_bytes(data)
    return folder


def test_batches_and_records_are_told(partition: Path) -> None:
    found = items(str(partition), "--records")
    batches = [each for each in found if each["kind"] == "batch"]
    assert [(each["base_offset"], each["last_offset"]) for each in batches] == [(0, 2), (3, 5)]
    assert [each["compression"] for each in batches] == ["zstd", "none"]
    records = [each for each in found if each["kind"] == "record"]
    assert [each["offset"] for each in records] == list(range(6))
    assert records[4]["key"] == "k1"
    assert records[4]["headers"] == [{"name": "h", "value": "x"}]
    code, out, err = dump(str(partition), "--records")
    assert (code, err) == (0, "")
    assert "  0..2 position=0" in out
    assert "      4: timestamp=1001" in out


def test_a_part_of_a_log(partition: Path) -> None:
    found = items(str(partition / LOG), "--from", "3", "--limit", "1")
    assert [each["base_offset"] for each in found] == [3]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:-1], "batch is cut short"),
        (lambda data: data[:-1] + b"\xff", "checksum does not match"),
        (lambda data: data + data[: 12 + data[11]], "offsets go back"),
        (lambda data: data[:16] + b"\x01" + data[17:], "version 2"),
    ],
)
def test_damage_is_told_and_gives_exit_code_1(partition: Path, damage: Any, told: str) -> None:
    file = partition / LOG
    file.write_bytes(damage(file.read_bytes()))
    code, out, err = dump(str(partition), "--problems")
    assert code == 1
    assert told in out
    assert err == f"moldau: {counted(out.count('!!'), 'problem')}\n"


def test_an_index_is_held_against_its_log(partition: Path) -> None:
    second = (partition / LOG).read_bytes().index(b"\0\0\0\0\0\0\0\3")
    entries = {".index": (5, second), ".timeindex": (1002, 5)}
    for ending, (first, last) in entries.items():
        size = 8 if ending == ".timeindex" else 4
        good = first.to_bytes(size, "big") + last.to_bytes(4, "big")
        (partition / LOG.replace(".log", ending)).write_bytes(good + bytes(100 * (size + 4)))
    assert dump(str(partition))[0] == 0
    found = [each for each in items(str(partition)) if each["kind"] == "entry"]
    assert found[0]["offset"] == 5
    assert found[1]["timestamp"] == 1002
    for ending, wrong in (
        (".index", b"\0\0\0\5\0\0\0\1"),
        (".timeindex", bytes(7) + b"\7\0\0\0\5"),
    ):
        (partition / LOG.replace(".log", ending)).write_bytes(wrong)
    code, out, _ = dump(str(partition), "--problems")
    assert code == 1
    assert "no batch begins there" in out
    assert "the newest timestamp of that batch is 1002" in out


def test_the_other_files_of_a_directory(tmp_path: Path, partition: Path) -> None:
    entry = ProducerStateEntry(7, 1, -1, 5, None, (BatchMetadata(2, 9, 2, 5),))
    (partition / "00000000000000000003.snapshot").write_bytes(encode_snapshot([entry]))
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n4 17\n", encoding="ascii")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: x\n", encoding="ascii")
    write_offsets(
        RealFiles(),
        str(tmp_path / "recovery-point-offset-checkpoint"),
        {TopicPartition("orders", 0): 6},
    )
    found = items(str(tmp_path), "-r")
    assert {"topic": "orders", "partition": 0, "offset": 6}.items() <= found[0].items() or any(
        each.get("offset") == 6 and each.get("topic") == "orders" for each in found
    )
    assert any(each.get("producer") == 7 and each["last_offset"] == 9 for each in found)
    assert any(each.get("epoch") == 4 and each.get("start_offset") == 17 for each in found)
    assert any(each.get("text") == "topic_id: x" for each in found)


def test_checkpoints_without_a_byte_are_no_damage(partition: Path) -> None:
    """Kafka makes them so when it starts, and fills them later."""
    (partition / "leader-epoch-checkpoint").touch()
    (partition / "replication-offset-checkpoint").touch()
    code, out, _ = dump("-r", "--problems", str(partition))
    assert (code, out) == (0, "")
    (partition / "leader-epoch-checkpoint").write_text("0")
    assert dump("-r", "--problems", str(partition))[0] == 1


def test_internal_topics_are_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    key = GROUP_LOG.encode_key(OffsetCommitKey(group="g", topic="orders", partition=2))
    value = GROUP_LOG.encode_value(
        OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1), 3
    )
    rows: list[Any] = [(0, key, value, ()), (0, key, None, ()), (0, b"\0\x63", b"", ())]
    commit = encode_control_batch([(ControlType.COMMIT, b"\0\0\0\0\0\5")], 0, 3)
    (folder / LOG).write_bytes(encode_batch(rows) + commit)
    first, second, third, marker = [
        each for each in items(str(folder), "--records") if each["kind"] == "record"
    ]
    assert first["key"]["fields"]["group"] == "g"
    assert first["value"]["fields"]["offset"] == 42
    assert second["value"] is None
    assert "unknown record type" in third["undecoded"]
    assert (marker["control"], marker["fields"]["coordinator_epoch"]) == ("COMMIT", 5)


@pytest.mark.parametrize("suffix", [".lost", ".2.lost", ".deleted", ".cleaned", ".swap"])
def test_what_is_not_in_use_is_told_as_what_it_was(partition: Path, suffix: str) -> None:
    log = partition / f"00000000000000000003.log{suffix}"
    rows = [(1000, b"k", b"v", ())] * 3
    log.write_bytes(encode_batch(rows, 3) + encode_batch(rows, 6)[:-1])
    index = partition / f"00000000000000000003.index{suffix}"
    index.write_bytes(b"\0\0\0\2\0\0\0\7")
    assert {str(log), str(index)} <= {each["file"] for each in items(str(partition))}
    batch, problem = items(str(log))
    assert (batch["base_offset"], batch["last_offset"]) == (3, 5)
    assert problem["what"] == "batch is cut short"
    entry, wrong = items(str(index))
    assert (entry["offset"], entry["position"]) == (5, 7)
    assert wrong["what"] == "no batch begins there"


def test_what_is_no_log_is_told(tmp_path: Path) -> None:
    assert dump(str(tmp_path))[0] == 1
    with pytest.raises(FileNotFoundError):
        dump(str(tmp_path / "missing"))


@pytest.mark.real
def test_a_data_directory_of_apache_kafka_is_read_without_a_complaint(
    kafka_broker: KafkaBroker,
) -> None:
    async def fill() -> None:
        async with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("dumped", 1, 1))
        async with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
            await (await producer.send_many("dumped", [b"x" * 500] * 2000))

    asyncio.run(fill())
    code, out, err = dump(str(kafka_broker.data / "dumped-0"))
    assert (code, err) == (0, ""), out
    found = items(str(kafka_broker.data / "dumped-0"))
    assert sum(each.get("records", 0) for each in found) == 2000
    metadata = items(str(kafka_broker.data / "__cluster_metadata-0"), "--records")
    types = {each.get("type") for each in metadata if each["kind"] == "record"}
    assert {"TopicRecord", "PartitionRecord", "RegisterBrokerRecord"} <= types
    assert not [each for each in metadata if "undecoded" in each]
    topic = next(each for each in metadata if each.get("type") == "TopicRecord")
    assert len(topic["fields"]["topic_id"]) == 22
