"""The first commands of a user, in fresh processes against a real broker: mistakes name what is
wrong and what to do."""

from __future__ import annotations

import re
import signal
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli import fresh
from tests.cli.fresh import documents, lines_of
from tests.cli.groups import Cluster
from tests.cli.processes import running
from tests.cli.shell import moldau
from tests.conformance.broker import moldau as process
from tests.peers.eventually import eventually

__all__ = ["process"]

RECORDS = [
    {"value": "one", "key": "k", "headers": [{"name": "a", "value": "b"}], "partition": 1},
    {"value": {"base64": "/w=="}, "key": {"base64": "/g=="}, "timestamp": 1_700_000_000_000},
    {"value": None, "key": "gone", "headers": [{"name": "n", "value": None}], "partition": 0},
    {"value": "", "key": "", "partition": 1, "timestamp": 5},
    {"value": "now", "timestamp": -1},
]


def test_produce_json_writes_what_consume_json_reads(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    first, second = f"{moldau_topic}-1", f"{moldau_topic}-2"
    assert fresh.moldau("topic", "create", first, second, "-p", "2", bootstrap=servers).code == 0
    sent = fresh.moldau("produce", first, "--json", source=lines_of(RECORDS), bootstrap=servers)
    assert (sent.code, sent.err, sent.json["records"]) == (0, "", len(RECORDS))
    read = fresh.moldau("consume", first, "--json", bootstrap=servers).out
    fresh.moldau("produce", second, "--json", source=read, bootstrap=servers)
    again = fresh.moldau("consume", second, "--json", bootstrap=servers).out

    def facts(lines: str) -> list[tuple[object, ...]]:
        keys = ("partition", "offset", "timestamp", "key", "value")
        found = [(*(each[key] for key in keys), each["headers"]) for each in documents(lines)]
        return sorted(found, key=repr)

    assert facts(again) == facts(read)
    assert len(facts(read)) == len(RECORDS)
    assert {"base64": "/w=="} in [each["value"] for each in documents(read)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no json", "line 2 is no JSON"),
        ('{"vlaue": "x"}', "line 2 has the key 'vlaue'; known: value"),
        ('{"key": "x"}', 'line 2 has no "value"'),
        ('{"value": {"a": 1}}', "line 2 value is text, null"),
        ('{"value": "x", "partition": "0"}', "line 2 partition is a whole number"),
        ('{"value": "x", "partition": 2147483648}', "line 2 partition is a whole number from 0"),
        ('{"value": "x", "timestamp": 9223372036854775808}', "line 2 timestamp is a whole number"),
        ('{"value": "x", "timestamp": -2}', "line 2 timestamp is a whole number"),
        ('{"value": "x", "headers": {"a": "b"}}', "line 2 headers is a list"),
    ],
)
def test_a_wrong_json_line_is_named_and_those_before_it_are_sent(
    line: str, told: str, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    source = f'{{"value": "good"}}\n{line}\n{{"value": "later"}}\n'
    done = moldau("produce", moldau_topic, "--json", source=source, bootstrap=servers)
    assert done.code == 2
    assert told in done.err
    assert "acknowledged=1" in done.err
    assert moldau("consume", moldau_topic, bootstrap=servers).out == "good\n"


def test_a_refused_setting_of_a_topic_says_what_is_allowed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    words = ("topic", "create", moldau_topic, "-c", "retention.ms=abc")
    done = moldau(*words, bootstrap=servers)
    assert done.code == 1
    assert "'abc' for configuration retention.ms: must be a whole number, -1 or more" in done.err
    assert "None" not in done.err


def test_the_help_is_that_of_the_action() -> None:
    done = moldau("help", "topic", "create")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("usage: moldau topic create ")
    wrong = moldau("topic", "create", "a", "--partition", "2")
    assert wrong.code == 2
    assert "unrecognized arguments: --partition 2; did you mean --partitions? " in wrong.err
    assert wrong.err.endswith(" Try moldau topic create --help\n")


def test_several_topics_are_created_at_once(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    names = [f"{moldau_topic}-{each}" for each in "abc"]
    words = ("topic", "create", *names, "-p", "3", "-r", "1", "-c", "retention.ms=60000")
    done = moldau(*words, bootstrap=servers)
    assert done.out.splitlines() == [f"created {each}: partitions 3, replicas 1" for each in names]
    described = moldau("topic", "describe", *names, "--json", bootstrap=servers).json
    assert [each["configs"] for each in described] == [{"retention.ms": "60000"}] * 3
    again = moldau("topic", "create", names[0], f"{moldau_topic}-d", "--json", bootstrap=servers)
    assert again.code == 1
    assert f"{moldau_topic}-d" in again.out
    assert "TOPIC_ALREADY_EXISTS" in again.err


def test_the_address_may_stand_before_the_command(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    for words in (("-b", servers), (f"--bootstrap={servers}",)):
        assert moldau(*words, "topic", "list").code == 0
    assert moldau("-b", "localhost:1", "topic", "list", "-b", servers).code == 0
    refused = moldau("-b", servers, "version")
    assert refused.code == 2
    assert "version connects to no cluster" in refused.err


def test_groups_are_described_by_pattern(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    moldau("produce", moldau_topic, source="x\n", bootstrap=servers)
    for each in "ab":
        moldau("consume", moldau_topic, "--group", f"{moldau_topic}-{each}", bootstrap=servers)
    found = moldau("group", "describe", f"{moldau_topic}-*", "--json", bootstrap=servers).json
    assert sorted(each["group"] for each in found) == [f"{moldau_topic}-a", f"{moldau_topic}-b"]
    none = moldau("group", "describe", "none-*", bootstrap=servers)
    assert none.code == 1
    assert "no group of consumers matches (pattern='none-*')" in none.err


@pytest.mark.real
def test_an_interrupted_load_says_how_many_were_acknowledged(process: Cluster) -> None:
    moldau("topic", "create", "load", bootstrap=process.bootstrap_servers)

    def end() -> int:
        done = moldau("offsets", "load", "--json", bootstrap=process.bootstrap_servers)
        return int(done.json[0]["latest"])

    with running(process, "produce", "load", "--count", "100000000", code=130) as load:
        eventually(lambda: end() > 0)
        load.send_signal(signal.SIGINT)
        assert load.stderr is not None
        told = load.stderr.read()
    found = re.search(r"interrupted: ([\d,]+) of 100,000,000 records were acknowledged", told)
    assert found is not None, told
    assert 0 < int(found[1].replace(",", "")) <= end()


@pytest.mark.parametrize(
    "words",
    [
        "topic describe TYPO",
        "topic delete TYPO",
        "topic alter TYPO -p 9",
        "topic trim TYPO --before 1",
        "config describe topic TYPO",
        "offsets TYPO",
        "consume TYPO",
    ],
)
def test_the_nearest_topic_is_named(
    words: str, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    servers = moldau_broker.bootstrap_servers
    moldau("topic", "create", moldau_topic, bootstrap=servers)
    typo = f"{moldau_topic}x"
    done = moldau(*words.replace("TYPO", typo).split(), bootstrap=servers)
    assert done.code == 1
    assert f"there is no topic {typo}; did you mean {moldau_topic}?" in done.err


def test_the_nearest_group_is_named(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> None:
    servers, group = moldau_broker.bootstrap_servers, f"g-{moldau_topic}"
    moldau("produce", moldau_topic, source="x\n", bootstrap=servers)
    moldau("consume", moldau_topic, "--group", group, bootstrap=servers)
    for action in ("describe", "delete"):
        done = moldau("group", action, f"{group}x", bootstrap=servers)
        assert done.code == 1
        assert f"there is no group {group}x; did you mean {group}?" in done.err


@contextmanager
def answering(data: bytes) -> Iterator[str]:
    """The address of a server that answers whatever comes with these bytes."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1)
            self.request.sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "an HTTP server answers"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "this port speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the broker sent what is no answer"),
    ],
)
def test_a_server_that_is_no_broker_is_named(data: bytes, told: str) -> None:
    with answering(data) as address:
        done = moldau("topic", "list", bootstrap=address)
    assert done.code == 1
    assert told in done.err
    assert done.err.count("\n") == 1


def test_a_file_shared_with_java_may_have_keys_of_others(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "app.properties").write_text("my.company.retry=3\nclient.id=app\n")
    words = ("topic", "list", "--command-config", "app.properties")
    done = fresh.moldau(*words, bootstrap=moldau_broker.bootstrap_servers, directory=tmp_path)
    assert done.code == 0
    assert "my.company.retry: no client has this setting, so it is left out" in done.err


def test_a_template_behind_the_f_of_kcat_is_sent_to_format() -> None:
    wrong = moldau("consume", "orders", "-f", "%k %v\\n")
    assert wrong.code == 2
    assert "a template of lines goes behind --format" in wrong.err
