"""`moldau consume --where`: only the records for which an expression is true."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from moldau.cli.command import Exit
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A topic of JSON values, with two others, in one partition."""
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
