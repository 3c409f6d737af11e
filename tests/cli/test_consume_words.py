"""`moldau consume`: expressions, templates, JSON and places on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from moldau.cli.command import Exit
from moldau.cli.commands.consume_format import lines_of
from moldau.client import ConsumerRecord, PartitionRecords
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Topics: sales has JSON values with two others in one partition, orders headers and nulls, and
    three has records in its last partition."""
    with SyncEmbeddedBroker() as broker:
        found = Shell(broker.bootstrap_servers)
        found.good("topic", "create", "sales", "-p", "1")
        lines = [
            f"{name}:{json.dumps({'amount': amount, 'of': {'city': city}})}"
            for name, amount, city in (("ann", 7, "Prag"), ("7", 12, "Wien"), ("bob", 30, "Prag"))
        ]
        found.good("produce", "sales", "--keys", source="\n".join(lines) + "\n")
        source = "odd:no json\n"
        found.good("produce", "sales", "--keys", "--header", "shop=3", source=source)
        found.good("produce", "sales", "--keys", "--null", "gone", source="gone:gone\n")
        found.good("topic", "create", "orders", "-p", "2")
        words = ("produce", "orders", "--keys", "--partition", "1")
        source = "k:gr\u00fc\u00df\nempty:\n"
        found.good(*words, "--header", "a=b", "--header", "c=d", source=source)
        found.good(*words, "--null", "-", source="n:-\n")
        found.good("topic", "create", "three", "--partitions", "3")
        found.good("topic", "create", "one", "--partitions", "1")
        found.good("produce", "three", "--partition", "2", source="a\nb\n")
        yield found


@pytest.mark.parametrize(
    ("expression", "offsets"),
    [
        ("offset in [0, 3] and partition == 0", [0, 3]),
        ('topic == "sales" and timestamp > 0 and offset >= 3', [3, 4]),
        ('key == "7" or int(key if key == "7" else "0") > 8', [1]),
        ('headers.shop == "3"', [3]),
        ("value is None", [4]),
        ('value == "no json"', [3]),
        ("False", []),
    ],
)
def test_an_expression_chooses(shell: Shell, expression: str, offsets: list[int]) -> None:
    done = shell.good("consume", "sales", "--json", "--where", expression)
    assert [json.loads(line)["offset"] for line in done.out.splitlines()] == offsets


def test_a_record_for_which_it_fails_is_left_out_and_told(shell: Shell) -> None:
    done = shell("consume", "sales", "--where", 'value.of.city == "Prag"', "--format", "%k ")
    assert (done.code, done.out) == (Exit.DONE, "ann bob ")
    assert done.err == (
        'moldau: 1 record was left out, the first at sales-0@3: value.of.city == "Prag" failed: '
        "TypeError: str has no fields\n"
    )


def test_count_is_of_records_that_are_written(shell: Shell) -> None:
    words = ("consume", "sales", "--where", "offset > 0", "--count", "2", "--format", "%o ")
    assert shell.good(*words).out == "1 2 "
    quiet = shell.good("consume", "sales", "--where", "offset > 0", "--quiet", "--json").json
    assert quiet["records"] == 4


def test_a_group_goes_on_behind_the_records_that_were_looked_at(shell: Shell) -> None:
    words = ("consume", "sales", "--group", "lookers", "--format", "%o ", "--where", "offset != 1")
    assert shell(*words, "--count", "2").out == "0 2 "
    assert shell(*words).out == "3 4 "
    assert shell(*words).out == ""


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("valu.amount > 1", "there is no valu; did you mean value? (known: key, value, headers,"),
        ("value.amount >", "is no expression"),
        ("__import__('os')", "no function '__import__'"),
        ("[x for x in value]", "no ListComp"),
        ("value ** 9", "no Pow"),
    ],
)
def test_what_is_no_expression_is_refused(expression: str, said: str) -> None:
    done = Shell("127.0.0.1:1")("consume", "sales", "--where", expression)
    assert done.code == Exit.MISUSED
    assert f"--where: {said}" in done.err or said in done.err


def test_a_template_says_each_part_of_a_record(shell: Shell) -> None:
    said = shell.good("consume", "orders", "--format", r"%t\t%p %o %k=%v|%s %K %S [%h] 100%%\n").out
    assert said.splitlines() == [
        "orders\t1 0 k=gr\u00fc\u00df|gr\u00fc\u00df 1 6 [a=b,c=d] 100%",
        "orders\t1 1 empty=| 5 0 [a=b,c=d] 100%",
        "orders\t1 2 n=| 1 -1 [] 100%",
    ]
    assert shell.good("consume", "orders", "--format", r"%o\x2c", "--count", "2").out == "0,1,"
    (stamp,) = shell.good("consume", "orders", "--format", "%T", "--count", "1").out.split()
    assert int(stamp) > 1_500_000_000_000


@pytest.mark.parametrize(
    ("template", "told"),
    [("%q", "no %q"), ("%k %", "ends with %"), ("\\q", r"no \q"), ("plain", "no template"),
     ("%v\\", "ends with \\")],
)  # fmt: skip
def test_a_wrong_template_is_told_before_anything_is_read(template: str, told: str) -> None:
    done = Shell("127.0.0.1:1")("consume", "orders", "--format", template)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, None),
        (b"", ""),
        ("gr\u00fc\u00df".encode(), "gr\u00fc\u00df"),
        (b"\\xff", "\\xff"),
        (b"\xff", {"base64": "/w=="}),
        (b'{"base64": "/w=="}', '{"base64": "/w=="}'),
        ("\ud800".encode("utf-8", "surrogatepass"), {"base64": "7aCA"}),
    ],
)
def test_json_has_text_as_it_is_and_other_bytes_as_base64(
    data: bytes | None, shown: object
) -> None:
    record = ConsumerRecord("t", 0, 7, 8, data, data, (("name", data),))
    (line,) = lines_of("value", ":", json=True)(PartitionRecords("t", 0, [record], 8, 8))
    document = json.loads(line)
    assert (document["key"], document["value"]) == (shown, shown)
    assert document["headers"] == [{"name": "name", "value": shown}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("three", "--partition", "2", "--partition", "99"), "three has no partition 99"),
        (("one", "three", "--partition", "3"), "one, three have no partition 3"),
        (("one", "--partition", "7", "--partition", "-1"), "one has no partition 7, -1"),
    ],
)
def test_partitions_that_are_not_there_are_refused(
    shell: Shell, words: tuple[str, ...], told: str
) -> None:
    done = shell("consume", *words)
    assert (done.code, done.out, done.err) == (2, "", f"moldau: {told}\n")


def test_a_partition_is_read_of_those_topics_that_have_it(shell: Shell) -> None:
    assert shell.good("consume", "one", "three", "--partition", "2").out == "a\nb\n"


def test_words_of_kafkas_console_consumer_are_known(shell: Shell) -> None:
    words = ("consume", "three", "--from-beginning")
    assert shell.good(*words, "--max-messages", "1").out == "a\n"
    assert shell(*words, "--last", "1").code == 2


@pytest.mark.parametrize("end", ["latest-tiered", "earliest-pending-upload"])
def test_ends_of_tiered_storage_are_nowhere_without_it(shell: Shell, end: str) -> None:
    assert shell.good("offsets", "one", "--at", end).rows == [["one", "0", "-", "-"]]
