"""kcat's modes: list, produce, consume, query, and its settings of librdkafka."""

from __future__ import annotations

import json

import pytest

from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.conformance.kcat import kcat, kcat_consumed
from tests.conformance.records import CODECS
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real


def test_it_lists_brokers_and_topics(moldau: MoldauBroker) -> None:
    kcat(moldau.bootstrap_servers, "-P", "-t", "kcat-listed", text=b"a\n")

    told = json.loads(kcat(moldau.bootstrap_servers, "-L", "-J"))

    assert told["brokers"] == [{"id": 1, "name": moldau.bootstrap_servers}]
    listed = {each["topic"]: each["partitions"] for each in told["topics"]}
    assert listed["kcat-listed"] == [
        {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_lines_with_keys_and_headers_come_back(moldau: MoldauBroker, codec: str) -> None:
    """kcat 1.7.1 is from before Produce 0 was dropped: it must not silently stop compressing."""
    topic = f"kcat-{codec}"
    lines = b"".join(b"key %d\tvalue %d %s\n" % (at, at, b"x" * 200) for at in range(50))
    produce = ("-P", "-t", topic, "-p", "0", "-K", "\t", "-H", "one=1", "-H", "two=2")
    kcat(moldau.bootstrap_servers, *produce, "-X", f"compression.codec={codec}", text=lines)

    out = kcat(moldau.bootstrap_servers, "-C", "-q", "-e", "-t", topic, "-f", "%o %h %k\t%s\n")

    expected = [
        b"%d one=1,two=2 %s" % (at, line) for at, line in enumerate(lines.splitlines(keepends=True))
    ]
    assert out == b"".join(expected)
    assert moldau.codecs_in(topic, 0) == {CODECS.index(codec)}


def test_tombstones_and_empty_values_differ(moldau: MoldauBroker) -> None:
    topic = "kcat-null"
    kcat(moldau.bootstrap_servers, "-P", "-t", topic, "-K", ":", "-Z", text=b"gone:\nthere:x\n")

    (found,) = kcat_consumed(moldau.bootstrap_servers, topic).values()

    assert [(each.key, each.value) for each in found] == [(b"gone", None), (b"there", b"x")]


def test_it_reads_from_where_it_is_told(moldau: MoldauBroker) -> None:
    topic = "kcat-places"
    kcat(moldau.bootstrap_servers, "-P", "-t", topic, text=b"".join(b"%d\n" % n for n in range(20)))

    def values(*arguments: str) -> list[bytes]:
        consume = ("-C", "-q", "-e", "-t", topic, "-p", "0")
        return kcat(moldau.bootstrap_servers, *consume, *arguments).split()

    assert values("-o", "beginning", "-c", "2") == [b"0", b"1"]
    assert values("-o", "-3") == [b"17", b"18", b"19"]
    assert values("-o", "15") == [b"15", b"16", b"17", b"18", b"19"]
    assert values("-o", "end") == []


def test_it_queries_offsets_by_time(moldau: MoldauBroker) -> None:
    topic = "kcat-query"
    kcat(moldau.bootstrap_servers, "-P", "-t", topic, text=b"a\nb\nc\n")
    (found,) = kcat_consumed(moldau.bootstrap_servers, topic).values()
    stamp = found[0].timestamp_ms

    def offset(at: int) -> bytes:
        return kcat(moldau.bootstrap_servers, "-Q", "-t", f"{topic}:0:{at}").strip()

    assert offset(-2) == f"{topic} [0] offset 0".encode()
    assert offset(-1) == f"{topic} [0] offset 3".encode()
    assert offset(stamp) == f"{topic} [0] offset 0".encode()
    assert offset(stamp + 3_600_000).startswith(f"{topic} [0] offset -1".encode())


def test_settings_of_librdkafka(moldau: MoldauBroker) -> None:
    topic = "kcat-settings"
    settings = ("-X", "acks=all", "-X", "enable.idempotence=true", "-X", "linger.ms=0")
    kcat(moldau.bootstrap_servers, "-P", "-t", topic, *settings, text=b"sure\n")

    eventually(lambda: kcat_consumed(moldau.bootstrap_servers, topic))
    (found,) = kcat_consumed(
        moldau.bootstrap_servers, topic, "-X", "isolation.level=read_committed"
    ).values()
    assert [each.value for each in found] == [b"sure"]
