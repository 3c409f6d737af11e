"""Files that are given to commands: settings of whichever client, and offsets of a spreadsheet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.runtime.pipes import filled_pipe


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


PRODUCERS = "acks=1\nkey.serializer=string\ntransactional.id=x\ntransaction.timeout.ms=5\n"
CONSUMERS = "group.id=g\nmax.poll.records=5\nshare.acquire.mode=record_limit\n"


@pytest.mark.parametrize(
    ("words", "text", "names"),
    [
        (
            ("produce", "others"),
            CONSUMERS,
            "group.id, max.poll.records, share.acquire.mode",
        ),
        (
            ("consume", "others"),
            PRODUCERS,
            "acks, key.serializer, transactional.id, transaction.timeout.ms",
        ),
    ],
)
def test_what_only_the_other_client_has_is_passed_over_in_a_file(
    words: tuple[str, ...], text: str, names: str, shell: Shell, tmp_path: Path
) -> None:
    shell("topic", "create", "others", "--partitions", "1")
    file = tmp_path / "other.properties"
    file.write_text(f"client.id=shared\n{text}")
    done = shell(*words, "--command-config", str(file), source="a\n")
    told = f"moldau: passed over what this command has no use for: {names}\n"
    assert (done.code, done.err) == (0, told)
    for line in text.split():
        name = line.partition("=")[0]
        if name != "transaction.timeout.ms" and name != "share.acquire.mode":
            said_to_it = shell(*words, "--set", line)
            assert (said_to_it.code, said_to_it.err.split(": ")[1]) == (2, name)


JAVAS = "org.apache.kafka.common.serialization.String"


@pytest.mark.parametrize(
    ("command", "kind"), [("produce", "serializer"), ("consume", "deserializer")]
)
def test_keys_and_values_stay_bytes_whatever_the_clients_own_file_makes_of_them(
    command: str, kind: str, shell: Shell, tmp_path: Path
) -> None:
    """As Kafka's console clients have it."""
    shell("topic", "create", "bytes", "--partitions", "1")
    shell.good("produce", "bytes", source="a\n")
    file = tmp_path / "own.properties"
    file.write_text(f"value.{kind}={JAVAS}{kind.capitalize()}\nkey.{kind}=string\n")
    done = shell(command, "bytes", "--command-config", str(file), source="b\n")
    told = f"moldau: passed over what this command has no use for: value.{kind}, key.{kind}\n"
    assert (done.code, done.err) == (0, told)
    assert shell.good("consume", "bytes").out.startswith("a\n")
    refused = shell(command, "bytes", "--set", f"value.{kind}=string", source="b\n")
    words = f"moldau: value.{kind} cannot be set here: keys and values are bytes\n"
    assert (refused.code, refused.out, refused.err) == (2, "", words)


def test_what_is_read_beside_a_group_that_a_file_names_is_not_committed_for_it(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=applications\n")
    read = shell.good("consume", "orders", "--command-config", str(file))
    assert read.out == "a\nb\nc\n"
    assert "applications" not in shell.good("group", "list").out


def test_a_name_that_no_client_knows_is_left_out_aloud_in_a_file_that_java_reads(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=g\nmy.own=1\nlingre.ms=5\n")
    done = shell("group", "list", "--command-config", str(file))
    left_out = f"no client has this setting, so it is left out ({file})"
    assert (done.code, done.err) == (
        0,
        f"moldau: my.own: {left_out}\nmoldau: lingre.ms: {left_out}; did you mean linger.ms?\n",
    )


def test_a_name_that_no_client_knows_is_refused_in_a_file_for_moldau(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "consumer.toml"
    file.write_text("'my.own' = 1\n")
    done = shell("group", "list", "--command-config", str(file))
    assert (done.code, done.err) == (2, f"moldau: my.own: unknown setting ({file})\n")


def test_what_cannot_be_used_is_told_with_what_has_given_it(tmp_path: Path) -> None:
    shell = Shell("nowhere")
    file = tmp_path / "client.properties"
    file.write_text("retries=x\n")
    config = ("--command-config", str(file))
    for words, place in (
        (("topic", "list"), "environment variable MOLDAU_BOOTSTRAP"),
        (("topic", "list", "--bootstrap", "here"), "command line --bootstrap"),
        (("consume", "t", "--bootstrap", "here:1", "--set", "foo=1"), "command line --set"),
        (("produce", "t", "--bootstrap", "here:1", *config), str(file)),
        (("produce", "t", "--bootstrap", "here:1", *config, "--set", "retries=y"), "--set"),
    ):
        done = shell(*words)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        assert done.err.endswith(f"{place})\n"), done


def test_a_byte_order_mark_is_no_part_of_a_topics_name(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(b"\xef\xbb\xbforders,0,1\r\norders,1,0\r\n")
    expected = [["g", "orders", "0", "-", "1"], ["g", "orders", "1", "-", "0"]]
    from_file = shell.good("group", "reset", "g", "--from-file", str(file))
    assert [row[:5] for row in from_file.rows[:2]] == expected
    text = file.read_text(encoding="utf-8")
    from_stdin = shell.good("group", "reset", "g", "--from-file", "-", source=text)
    assert from_stdin.out == from_file.out


def test_a_file_that_names_controllers_is_not_taken_for_one_without_servers(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "admin.properties"
    file.write_text("bootstrap.controllers=localhost:9093\n")
    done = shell("topic", "list", "--command-config", str(file))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("moldau: bootstrap.controllers: controllers are not asked directly")


def test_pipes_are_as_good_as_files(shell: Shell) -> None:
    with filled_pipe(b"client.id=me\n") as settings, filled_pipe(b"orders,0,1\n") as offsets:
        words = ("group", "reset", "g", "--command-config", settings, "--from-file", offsets)
        assert shell.good(*words).rows[0][:5] == ["g", "orders", "0", "-", "1"]


def test_offsets_that_are_not_utf_8_are_refused(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes("orders,0,1\n".encode("utf-16"))
    done = shell("group", "reset", "g", "--from-file", str(file))
    told = f"moldau: {file} is not UTF-8 (byte 0: invalid start byte)\n"
    assert (done.code, done.out, done.err) == (2, "", told)
    piped = shell("group", "reset", "g", "--from-file", "-", source="orders,0,\udcff")
    assert (piped.code, piped.out) == (2, "")
    assert piped.err.startswith("moldau: standard input is not UTF-8 (byte 9: ")
