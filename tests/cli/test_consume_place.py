"""Which partitions and which ends of a log commands take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Runs commands against a broker with a topic of three partitions, and one of one."""
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.good("topic", "create", "three", "--partitions", "3")
        shell.good("topic", "create", "one", "--partitions", "1")
        shell.good("produce", "three", "--partition", "2", source="a\nb\n")
        yield shell


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
