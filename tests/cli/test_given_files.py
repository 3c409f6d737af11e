"""Files that are given to commands: settings of whichever client, and offsets of a spreadsheet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Runs commands against a broker that has the topic orders, with three records."""
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.good("topic", "create", "orders", "--partitions", "2")
        shell.good("produce", "orders", "--partition", "0", source="a\nb\nc\n")
        yield shell


@pytest.mark.parametrize("name", ["consumer.properties", "consumer.conf", "consumer"])
def test_a_consumers_file_is_good_enough_for_an_admins_commands(
    name: str, shell: Shell, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As for those of Kafka, whatever its name is."""
    file = tmp_path / name
    file.write_text("group.id=test-consumer-group\nauto.offset.reset=earliest\n")
    with caplog.at_level(logging.WARNING, "moldau.client"):
        shell.good("group", "list", "--command-config", str(file))
    (notice,) = (each.getMessage() for each in caplog.records)
    assert notice == (
        "admin: passed over what only other clients have: group.id, auto.offset.reset"
    )


def test_a_name_that_no_client_knows_is_refused(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=g\nmy.own=1\n")
    done = shell("group", "list", "--command-config", str(file))
    assert (done.code, done.err) == (2, "moldau: my.own: unknown setting (override)\n")


def test_a_byte_order_mark_is_no_part_of_a_topics_name(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(b"\xef\xbb\xbforders,0,1\r\norders,1,0\r\n")
    expected = [["g", "orders", "0", "-", "1"], ["g", "orders", "1", "-", "0"]]
    from_file = shell.good("group", "reset", "g", "--from-file", str(file))
    assert [row[:5] for row in from_file.rows[:2]] == expected
    text = file.read_text(encoding="utf-8")
    from_stdin = shell.good("group", "reset", "g", "--from-file", "-", source=text)
    assert from_stdin.out == from_file.out


def test_offsets_that_are_not_utf_8_are_refused(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes("orders,0,1\n".encode("utf-16"))
    done = shell("group", "reset", "g", "--from-file", str(file))
    told = f"moldau: {file} is not UTF-8 (byte 0: invalid start byte)\n"
    assert (done.code, done.out, done.err) == (2, "", told)
    piped = shell("group", "reset", "g", "--from-file", "-", source="orders,0,\udcff")
    assert (piped.code, piped.out) == (2, "")
    assert piped.err.startswith("moldau: standard input is not UTF-8 (byte 9: ")
