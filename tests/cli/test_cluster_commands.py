"""`moldau topic|produce|consume|config|offsets|cluster` against a real Apache Kafka."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from moldau.cli.command import UsageError
from moldau.cli.commands.cluster import shards_together
from moldau.cli.commands.consume_place import OffsetOrTime, parse_place
from moldau.cli.commands.produce import read_lines
from moldau.link.addresses import Address
from moldau.link.metadata import Broker
from tests.cli.shell import Shell
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker


def broker(number: int, port: int, rack: str | None, host: str = "h1") -> Broker:
    return Broker(number, Address(host, port), rack)


def test_brokers_are_shards_of_a_host_by_rack_and_numbers_in_a_row() -> None:
    first = [broker(1, 9092, "host-1"), broker(2, 9093, "host-1")]
    others = [
        broker(3, 9094, "host-3"),  # another rack
        broker(4, 9095, None),
        broker(5, 9096, None),  # no rack says that it is the same host
        broker(6, 9097, "a"),
        broker(8, 9098, "a"),  # not the next id
        broker(9, 9100, "a"),  # not the next port
        broker(10, 9101, "a", "h2"),
    ]

    assert shards_together([*first, *others]) == [first, *([each] for each in others)]


@pytest.fixture
def shell(kafka_broker: KafkaBroker) -> Shell:
    return Shell(kafka_broker.bootstrap_servers)


@pytest.mark.real
def test_a_topic_from_its_creation_to_its_end(shell: Shell) -> None:
    made = shell.good(
        "topic", "create", "life", "--partitions", "2", "--config", "retention.ms=60000", "--json"
    ).json
    assert (made["created"], made["partitions"], made["replication_factor"]) == (True, 2, 1)
    assert ["life", "2", "1", "ok"] in shell.good("topic", "list").rows
    again = shell("topic", "create", "life")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("moldau: TOPIC_ALREADY_EXISTS")
    assert again.err.count("\n") == 1
    assert "exists already" in shell.good("topic", "create", "life", "--if-not-exists").out
    (described,) = shell.good("topic", "describe", "life", "--json").json
    assert described["id"] == made["id"]
    assert described["configs"] == {"retention.ms": "60000"}
    assert [each["leader"] for each in described["partitions"]] == [1, 1]
    assert "retention.ms=60000" in shell.good("topic", "describe", "life").out
    shell.good("topic", "alter", "life", "--partitions", "3", "--unset", "retention.ms")
    eventually(lambda: "all defaults" in shell.good("topic", "describe", "life").out)
    eventually(lambda: len(shell.good("offsets", "life").rows) == 3)
    deleted = shell("topic", "delete", "life", "no-such")
    assert (deleted.code, deleted.out) == (1, "deleted life\n")
    assert "no-such" in deleted.err


@pytest.mark.real
def test_lines_go_in_and_come_out(shell: Shell) -> None:
    shell.good("topic", "create", "lines", "--partitions", "1")
    shell.good("produce", "lines", source="one\ntwo\r\n\nfour")
    assert shell.good("consume", "lines").out == "one\ntwo\n\nfour\n"
    shell.good(
        "produce", "lines", "--keys", "--null", "gone", "--header", "h=v", source="k:v:w\nk:gone\n"
    )
    assert shell.good("consume", "lines", "--from", "4", "--keys").out == "k:v:w\nk:null\n"
    first, second = map(
        json.loads, shell.good("consume", "lines", "--last", "2", "--json").out.splitlines()
    )
    assert (first["offset"], first["key"], first["value"]) == (4, "k", "v:w")
    assert first["headers"] == [{"name": "h", "value": "v"}]
    assert second["value"] is None
    full = shell.good("consume", "lines", "--count", "1", "--format", "full").out
    assert full.startswith("lines-0@0 ")
    assert shell.good("consume", "lines", "--from", "end").out == ""
    later = shell("consume", "lines", "--from", "2199-01-01")
    assert (later.code, later.out) == (0, "")
    assert later.err == "moldau: lines-0: no record is that new: the log ends at 6\n"


@pytest.mark.real
def test_lines_before_one_without_its_key_are_sent_and_counted(shell: Shell) -> None:
    """More lines than one read or one batch has."""
    shell.good("topic", "create", "keyed", "--partitions", "1")
    count = 60_000
    source = "".join(f"k:{number}\n" for number in range(count)) + "no key\nk:unsent\n"
    bad = shell("produce", "keyed", "--keys", source=source)
    told = f"moldau: line {count + 1} has no ':' for its key (acknowledged={count})\n"
    assert (bad.code, bad.err) == (2, told)
    (row,) = shell.good("offsets", "keyed").rows
    assert row[3] == str(count)
    first = shell("produce", "keyed", "--keys", "--acks", "0", source="no key\nk:v\n")
    assert first.err == "moldau: line 1 has no ':' for its key (sent=0)\n"
    assert shell.good("offsets", "keyed").rows == [row]


@pytest.mark.real
def test_headers_come_in_the_order_they_were_given_and_may_repeat(shell: Shell) -> None:
    shell.good("topic", "create", "headed", "--partitions", "1")
    given = [word for value in ("h=2", "a=", "h=1", "h=\udcff") for word in ("--header", value)]
    shell.good("produce", "headed", *given, source="x\n")
    headers = shell.good("consume", "headed", "--json").json["headers"]
    assert [(each["name"], each["value"]) for each in headers] == [
        ("h", "2"),
        ("a", ""),
        ("h", "1"),
        ("h", {"base64": "/w=="}),
    ]


@pytest.mark.real
def test_a_line_that_is_too_large_is_told_with_its_number_and_what_was_not_sent(
    shell: Shell,
) -> None:
    """More lines than one read has."""
    shell.good("topic", "create", "long-lines", "--partitions", "1")
    count = 60_000
    source = "".join(f"{number}\n" for number in range(count)) + "x" * 2_000_000 + "\nafter\n"
    bad = shell("produce", "long-lines", source=source)
    assert bad.code == 1
    assert f"line={count + 1}, unsent_lines=[{count + 1}, {count + 2}])" in bad.err
    assert "accepted" not in bad.err
    (row,) = shell.good("offsets", "long-lines").rows
    assert row[3] == str(count)


@pytest.mark.real
def test_a_size_that_no_record_may_have_is_refused_before_one_is_made(shell: Shell) -> None:
    load = ("produce", "sized", "--count", "1", "--size")
    huge = shell(*load, "99999999")
    assert (huge.code, huge.out) == (2, "")
    assert "more than a record may have: 1048576 bytes, by max.request.size" in huge.err
    shell.good("topic", "create", "sized", "--partitions", "1")
    more = ("--set", "max.request.size=3000000", "--compression", "gzip")
    assert shell(*load, "2000000", *more).code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("topic", "create", "\udcff"), "no name of a topic: it has 1 to 249 ASCII letters"),
        (("produce", "t\udcff"), "no name of a topic: it has 1 to 249 ASCII letters"),
        (("consume", "t", "t\udcff"), "no name of a topic: it has 1 to 249 ASCII letters"),
        (("consume", "t" * 40_000), "no name of a topic: it has 1 to 249 ASCII letters"),
        (("consume", "t", "--group", "g" * 40_000), "it is no text in UTF-8, or too long"),
        (("cluster", "features", "--upgrade", "share.version"), "is not NAME=LEVEL"),
        (("cluster", "features", "--dry-run"), "--upgrade or --downgrade"),
        (("cluster", "log-dirs", "--broker", "-1"), "'-1' is no number from 0 to 2147483647"),
        (
            ("offsets", "t", "--at", "end"),
            "'end' is no place: earliest, latest, max-timestamp, earliest-local, latest-tiered, "
            "earliest-pending-upload, a time like ",
        ),
        (("consume", "t", "--from", "now"), "'now' is no place: beginning, end, an offset, a time"),
        (
            ("group", "reset", "g", "--to-datetime", "end"),
            "'end' is no time: a time like 2026-11-20T12:00:00Z, -1h (ms, s, m, h or d ago), or @",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(words: tuple[str, ...], told: str) -> None:
    done = Shell("127.0.0.1:1")(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("consume", "t", "--group", "\udcff"), "--group: '\\udcff' is no name of a group"),
        (("group", "describe", "\udcff"), "GROUP: '\\udcff' is no name of a group"),
        (("group", "delete", "g", "\udcff"), "GROUP: '\\udcff' is no name of a group"),
        (("group", "reset", "\udcff", "--to-latest"), "GROUP: '\\udcff' is no name of a group"),
        (("group", "reset", "g", "--to-latest", "--topic", "\udcff:1"), "is no name of a topic"),
        (("group", "move", "\udcff", "--to", "g"), "GROUP: '\\udcff' is no name of a group"),
        (("group", "move", "g", "--to", "\udcff"), "--to: '\\udcff' is no name of a group"),
        (("group", "move", "g", "--rename", "\udcff=t"), "'\\udcff' is no name of a topic"),
        (("config", "describe", "group", "\udcff"), "NAME: '\\udcff' is no name of a resource"),
        (("config", "describe", "topic", "t", "\udcff"), "SETTING: '\\udcff' is no name of a"),
        (("config", "set", "topic", "t", "\udcff=1"), "'\\udcff' is no name of a setting"),
        (("config", "set", "topic", "t", "a=\udcff"), "the value of a is no text in UTF-8"),
        (("config", "unset", "topic", "t", "\udcff"), "SETTING: '\\udcff' is no name of a setting"),
        (
            ("topic", "alter", "t", "--unset", "\udcff"),
            "--unset: '\\udcff' is no name of a setting",
        ),
        (("topic", "create", "t", "--config", "a=\udcff"), "the value of a is no text in UTF-8"),
        (("topic", "list", "--set", "client.id=\udcff"), "the value of client.id is no text in"),
    ],
)
def test_words_that_are_no_text_are_refused_by_the_name_of_the_argument(
    words: tuple[str, ...], told: str
) -> None:
    done = Shell("127.0.0.1:1")(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("consume", "t", "--from"),
        ("offsets", "t", "--at"),
        ("group", "reset", "g", "--to-datetime"),
    ],
)
@pytest.mark.parametrize(
    "text", ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00+01:00", "0001-01-01"]
)
def test_times_before_1970_are_refused(words: tuple[str, ...], text: str) -> None:
    """As numbers they mean the ends of a log: -1 is the latest offset."""
    done = Shell("127.0.0.1:1")(*words, text)
    assert (done.code, done.out) == (2, "")
    assert f"{text!r} is before 1970" in done.err


def test_a_header_has_a_name_that_is_text(shell: Shell) -> None:
    done = shell("produce", "t", "--header", "\udcff=v")
    assert (done.code, "no name of a header" in done.err) == (2, True)


@pytest.mark.real
def test_a_load_goes_there_and_back_with_its_rate(shell: Shell) -> None:
    shell.good("topic", "create", "load", "--partitions", "3")
    words = ("produce", "load", "--count", "25001", "--size", "50", "--compression", "lz4")
    sent = shell.good(*words, "--json").json
    assert (sent["records"], sent["bytes"]) == (25_001, 25_001 * 50)
    read = shell.good("consume", "load", "--quiet", "--json").json
    assert (read["records"], read["bytes"]) == (25_001, 25_001 * 50)
    some = shell("consume", "load", "--count", "1000", "--quiet")
    assert "read 1,000 records" in some.err
    assert "records/s" in some.err
    ends = shell.good("offsets", "load", "--json").json
    assert sum(each["latest"] for each in ends) == 25_001
    trimmed = shell.good("topic", "trim", "load", "--partition", "1", "--before", "end").rows
    assert trimmed == [["load", "1", str(ends[1]["latest"])]]


@pytest.mark.real
def test_settings_are_shown_and_changed(shell: Shell) -> None:
    shell.good("topic", "create", "set-me")
    shell.good("config", "set", "topic", "set-me", "retention.ms=7", "cleanup.policy=compact")
    describe = ("config", "describe", "topic", "set-me")
    # A broker tells a change as soon as it has read it from the metadata log.
    eventually(lambda: "retention.ms" in shell.good(*describe).out)
    rows = {row[0]: row[1] for row in shell.good(*describe).rows}
    assert (rows["retention.ms"], rows["cleanup.policy"]) == ("7", "compact")
    shell.good("config", "unset", "topic", "set-me", "retention.ms")
    one = (*describe, "retention.ms", "--json")
    eventually(lambda: shell.good(*one).json[0]["source"] == "DEFAULT")
    tried = ("config", "set", "topic", "set-me", "retention.ms=9", "--dry-run")
    assert shell.good(*tried).out == "dry run: nothing was changed, but it can be\n"
    assert shell.good(*one).json[0]["source"] == "DEFAULT"
    bad = shell("config", "set", "topic", "set-me", "retention.ms=soon")
    assert (bad.code, bad.err.count("\n")) == (1, 1)
    assert "INVALID_CONFIG" in bad.err
    assert "node.id" in shell.good("config", "describe", "broker", "1", "--all", "--doc").out
    nobody = shell("config", "set", "broker", "7", "log.cleaner.threads=2")
    assert (nobody.code, nobody.err.count("\n")) == (1, 1)
    assert nobody.err.startswith("moldau: BROKER_NOT_AVAILABLE")
    assert "broker=7" in nobody.err


@pytest.mark.real
def test_the_cluster_is_described(shell: Shell, kafka_broker: KafkaBroker) -> None:
    cluster = shell.good("cluster", "describe", "--json").json
    assert cluster["id"] == kafka_broker.cluster_id
    assert cluster["brokers"][0]["port"] == kafka_broker.port
    assert (cluster["controller"], cluster["controller_is"]) == (1, "leader of the metadata quorum")
    assert kafka_broker.cluster_id in shell.good("cluster", "describe").out
    assert shell.good("cluster", "quorum", "--json").json["leader"] == 1
    assert "voter" in shell.good("cluster", "quorum").out
    assert str(kafka_broker.data) in shell.good("cluster", "log-dirs").out
    assert ["0", "Produce", "0-13"] in shell.good("cluster", "versions").rows


@pytest.mark.real
def test_what_is_missing_is_one_line(shell: Shell) -> None:
    for words in (("consume", "no-such"), ("topic", "describe", "no-such"), ("offsets", "no-such")):
        done = shell(*words)
        assert done.code == 1
        assert done.err.startswith("moldau: UNKNOWN_TOPIC_OR_PARTITION")
        assert done.err.count("\n") == 1


def test_an_address_where_nobody_listens_is_one_line() -> None:
    done = Shell("127.0.0.1:1")("topic", "list")
    assert done.code == 1
    assert done.err.startswith("moldau: BROKER_NOT_AVAILABLE: no broker can be reached")
    assert done.err.count("\n") == 1


@pytest.mark.real
def test_a_file_says_where_the_cluster_is_and_words_win(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text(f"bootstrap.servers={kafka_broker.bootstrap_servers}\nclient.id=filed\n")
    wrong.write_text("bootstrap.servers=127.0.0.1:1\ndefault.api.timeout.ms=1000\n")
    shell = Shell("127.0.0.1:1")
    shell.good("cluster", "describe", "--command-config", str(right))
    assert shell("cluster", "describe", "--command-config", str(wrong)).code == 1
    there = ("--bootstrap", kafka_broker.bootstrap_servers)
    shell.good("cluster", "describe", "--command-config", str(wrong), *there)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n",
            "security.protocol=SASL_SSL: a login needs",
        ),
        ("retries=x\n", "retries must be"),
        (None, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    if text is not None:
        path.write_text(text)
    done = Shell("127.0.0.1:1")("topic", "list", "--command-config", str(path))
    assert (done.code, told in done.err) == (2, True), done


def test_only_who_gives_a_setting_by_set_hears_of_the_other_option(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text("'lingre.ms' = 5\n")
    words = ("topic", "create", "t", "--command-config", str(path))
    done = Shell("127.0.0.1:1")(*words, "--set", "client.id=me", "--set", "client.id=you")
    assert done.code == 2
    assert "unknown setting" in done.err
    assert "--set" not in done.err
    both = Shell("127.0.0.1:1")(*words, "--set", "retention.ms=1")
    assert both.code == 2
    assert "--set is for the client; --config is for the topic" in both.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("topic", "create"), "TOPIC"),
        (("topic", "alter", "t"), "nothing to alter"),
        (("topic", "create", "t", "--config", "x"), "NAME=VALUE"),
        (("topic", "trim", "t", "--before", "soon"), "the word end"),
        (("consume", "t", "--from", "soon"), "no place"),
        (("consume", "t", "--last", "-1"), "negative"),
        (("consume", "t", "--count", "0"), "--count takes a number of records, from 1 on"),
        (("consume", "t", "--count", "-3"), "--count takes a number of records, from 1 on"),
        (("produce", "t", "--size", "5"), "--count"),
        (("produce", "t", "--keys", "--separator", ""), "empty"),
        (("config", "unset", "topic", "t", "a=b"), "without values"),
        (("offsets", "t", "--at", "soon"), "no place"),
        (("topic", "list", "--set", "foo=1"), "unknown setting"),
        (("topic", "create", "t", "--set", "retention.ms=1"), "--config is for the topic"),
        (("topic", "list", "--bootstrap", "nohost"), "host:port"),
        (("topic", "list", "--bootstrap-server", "nohost"), "host:port"),
        (("topic", "list", "-b", "nohost"), "host:port"),
    ],
)
def test_mistakes_are_told_without_a_cluster(words: tuple[str, ...], told: str) -> None:
    done = Shell("127.0.0.1:1")(*words)
    assert done.code == 2, done
    assert told in done.err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", OffsetOrTime()),
        ("end", OffsetOrTime(is_end=True)),
        ("42", OffsetOrTime(offset=42)),
        ("@1700000000000", OffsetOrTime(timestamp_ms=1_700_000_000_000)),
        ("1970-01-01", OffsetOrTime(timestamp_ms=0)),
        ("2023-11-14T22:13:20Z", OffsetOrTime(timestamp_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20", OffsetOrTime(timestamp_ms=1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", OffsetOrTime(timestamp_ms=1_700_000_000_000)),
    ],
)
def test_places(text: str, place: OffsetOrTime) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "@", "@x", "-5", "yesterday"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_place(text)


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(3)

    lines = [line for piece in read_lines(Pieces(b"abcdef\n\ng\r\nhij")) for line in piece]
    assert lines == [b"abcdef", b"", b"g", b"hij"]


def test_a_long_line_costs_as_much_as_as_many_bytes_in_short_ones() -> None:
    """It comes in pieces, as of a pipe. To copy them again with each one would take minutes."""

    class Pipe(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(4096)

    data = bytes(24 << 20)
    start = time.process_time()
    (line,) = (line for lines in read_lines(Pipe(data)) for line in lines)
    assert time.process_time() - start < 2.0
    assert line == data


@pytest.mark.real
def test_features_go_down_and_up_again(shell: Shell) -> None:
    def level() -> int:
        found: int = shell.good("cluster", "features", "--json").json["share.version"]["level"]
        return found

    assert level() == 1
    words = ("cluster", "features", "--downgrade", "share.version=0")
    assert shell.good(*words, "--dry-run").out == "share.version could be 0\n"
    assert level() == 1
    assert shell.good(*words).out == "share.version is 0\n"
    eventually(lambda: level() == 0)
    shell.good("cluster", "features", "--upgrade", "share.version=1")
    eventually(lambda: level() == 1)
    assert ["share.version", "1", "0-1"] in shell.good("cluster", "features").rows
    refused = shell("cluster", "features", "--upgrade", "no.such.feature=3")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("moldau: INVALID_UPDATE_VERSION")


@pytest.mark.real
def test_check_roll_and_balance_understand_apache_kafka(shell: Shell) -> None:
    shell.good("topic", "create", "alone", "--partitions", "2")
    found = shell("cluster", "check", "--json")
    assert found.code == 1
    risks = {(each["kind"], each["what"]): each for each in found.json["risks"]}
    assert risks["unreadable", "alone"]["partitions"] == [0, 1]
    assert risks["no quorum", "metadata"]["failure"] == "node 1"
    dry = shell.good("cluster", "roll", "--restart", "restart {id}", "--dry-run", "--json").json
    assert dry["steps"] == [{"node": 1, "restart": "restart 1"}]
    assert any(each.startswith("node 1: alone 0,1 unreadable") for each in dry["pauses"])
    refused = shell("cluster", "roll", "--restart", "false")
    assert refused.code == 1
    assert "--allow-pauses" in refused.err
    planned = shell.good("cluster", "balance", "--json").json
    assert (planned["changed_partitions"], planned["level"]) == (0, True)
