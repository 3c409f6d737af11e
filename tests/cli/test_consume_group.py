"""`moldau consume --group`, against Apache Kafka and against moldau."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.plugins import installed_plugins
from tests.cli.committed_offsets import committed
from tests.cli.groups import Cluster, fill
from tests.cli.groups import cluster as cluster
from tests.cli.groups import shell as shell
from tests.cli.processes import line_of, running
from tests.cli.shell import Shell
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@contextmanager
def following(
    cluster: Cluster, *words: str, end: signal.Signals = signal.SIGINT
) -> Iterator[subprocess.Popen[str]]:
    """`moldau consume --follow` in a process of its own; Ctrl-C ends it, and ends it well."""
    with running(cluster, "consume", *words, "--follow") as process:
        yield process
        process.send_signal(end)


@pytest.mark.real
@PROTOCOLS
def test_it_goes_on_where_the_group_has_stopped(shell: Shell, protocol: str) -> None:
    topic, group = f"goes-on-{protocol}", f"goes-on-{protocol}-group"
    fill(shell, topic, [6])
    consume = ("consume", topic, "--group", group, "--set", f"group.protocol={protocol}")
    some = shell(*consume, "--count", "2")
    assert (some.code, some.out) == (0, "0-0\n0-1\n")
    assert some.err == f"moldau: group {group} reads now {topic}-0\n"
    assert committed(shell, group) == [2]
    shell.good("produce", topic, source="more\n")
    rest = [json.loads(line) for line in shell(*consume, "--json").out.splitlines()]
    assert [each["value"] for each in rest] == ["0-2", "0-3", "0-4", "0-5", "more"]
    assert committed(shell, group) == [7]


@pytest.mark.real
def test_a_group_that_has_committed_nothing_begins_where_it_is_told(shell: Shell) -> None:
    fill(shell, "begins", [6])

    def consume(group: str, place: str) -> str:
        done = shell("consume", "begins", "--group", group, "--from", place)
        assert done.code == 0, done
        return done.out

    assert consume("begins-by-offset", "4") == "0-4\n0-5\n"
    assert consume("begins-by-time", "@1000") == "".join(f"0-{number}\n" for number in range(6))
    assert consume("begins-at-the-end", "end") == ""
    assert committed(shell, "begins-at-the-end") == [6]
    shell.good("produce", "begins", source="more\n")
    assert consume("begins-at-the-end", "beginning") == "more\n"
    assert consume("begins-by-offset", "0") == "more\n"


@pytest.mark.real
def test_blanks_around_a_group_are_not_of_its_name(shell: Shell) -> None:
    """As in any setting; it is told by the name that it has."""
    fill(shell, "blanks", [1])
    done = shell("consume", "blanks", "--group", " blanks-group ")
    assert done.err == "moldau: group blanks-group reads now blanks-0\n"
    assert committed(shell, "blanks-group") == [1]


@pytest.mark.real
def test_what_was_not_written_out_is_not_committed(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "cut", [10])
    more = "".join(f"0-{number}\n" for number in range(10, 20))

    class Cut(io.StringIO):
        """A pipe whose reader leaves within the second batch, which comes when the first is out."""

        def write(self, text: str) -> int:
            if text == "0-13\n":
                raise BrokenPipeError(32, "Broken pipe")
            if text == "0-9\n":
                shell.good("produce", "cut", source=more)
            return super().write(text)

    pipe = Cut()
    context = Context(pipe, io.StringIO(), shell.environment, installed_plugins)
    with pytest.raises(BrokenPipeError):
        run(("consume", "cut", "--group", "cut-group", "--follow"), context)
    assert pipe.getvalue().splitlines()[-1] == "0-12"
    assert committed(shell, "cut-group") == [10]
    assert shell("consume", "cut", "--group", "cut-group").out == more


@pytest.mark.real
def test_sigterm_commits_what_was_written_out(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "term", [10])
    more = "".join(f"0-{number}\n" for number in range(10, 20))

    class Ended(io.StringIO):
        """The second batch is being written, which comes when the first is out."""

        def write(self, text: str) -> int:
            if text == "0-13\n":
                assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
                signal.raise_signal(signal.SIGTERM)
            if text == "0-9\n":
                shell.good("produce", "term", source=more)
            return super().write(text)

    out = Ended()
    context = Context(out, io.StringIO(), shell.environment, installed_plugins)
    assert run(("consume", "term", "--group", "term-group", "--follow"), context) == 0
    assert out.getvalue().splitlines()[-1] == "0-12"
    assert committed(shell, "term-group") == [10]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.real
def test_members_share_and_hand_over(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "shared", [3, 3])
    with following(cluster, "shared", "--group", "shared-group") as first:
        assert line_of(first.stderr) == "moldau: group shared-group reads now shared-0, shared-1\n"
        assert sorted(line_of(first.stdout) for _ in range(6)) == [
            *("0-0\n", "0-1\n", "0-2\n", "1-0\n", "1-1\n", "1-2\n")
        ]
        second_words = ("shared", "--group", "shared-group")
        with following(cluster, *second_words, end=signal.SIGTERM) as second:
            assert "gives up shared-0, shared-1" in line_of(first.stderr)
            kept = line_of(first.stderr).split()[-1]
            got = line_of(second.stderr).split()[-1]
            assert sorted((kept, got)) == ["shared-0", "shared-1"]
            for partition in (0, 1):
                words = ("produce", "shared", "--partition", str(partition))
                shell.good(*words, source=f"for {partition}\n")
            assert line_of(first.stdout) == f"for {kept[-1]}\n"
            assert line_of(second.stdout) == f"for {got[-1]}\n"
        eventually(lambda: committed(shell, "shared-group") == [4, 4])
    assert committed(shell, "shared-group") == [4, 4]


@pytest.mark.real
def test_what_others_read_counts_too(shell: Shell, cluster: Cluster) -> None:
    """Two partitions, one of them read by somebody else: the command ends when both are read."""
    fill(shell, "others", [2, 2])
    with following(cluster, "others", "--group", "others-group", "--quiet") as other:
        assert "reads now" in line_of(other.stderr)
        done = shell("consume", "others", "--group", "others-group")
        assert done.code == 0
        assert committed(shell, "others-group") == [2, 2]


@pytest.mark.real
def test_a_group_of_another_kind_is_one_line(shell: Shell) -> None:
    fill(shell, "kinds", [1])
    missing = shell("consume", "no-such", "--group", "kinds-group")
    assert missing.code == 1
    assert missing.err.startswith("moldau: UNKNOWN_TOPIC_OR_PARTITION")
    assert missing.err.count("\n") == 1
    bad = shell("consume", "kinds", "--group", "kinds-group", "--set", "session.timeout.ms=4000")
    assert bad.code == 1
    assert bad.err.startswith("moldau: INVALID_SESSION_TIMEOUT")
    assert bad.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--partition", "1"), "--partition"),
        (("--last", "1"), "--last"),
        (("--from", "soon"), "no place"),
        (("--format", "%v", "--json"), "not with --json"),
        (("--format", "full", "--keys"), "not with --keys"),
    ],
)
def test_mistakes_are_told_without_a_cluster(words: tuple[str, ...], told: str) -> None:
    done = Shell("127.0.0.1:1")("consume", "t", "--group", "g", *words)
    assert done.code == 2, done
    assert told in done.err


def test_nothing_commits_what_is_not_written_out(tmp_path: Path) -> None:
    shell = Shell("127.0.0.1:1")
    told = shell("consume", "t", "--group", "g", "--set", "enable.auto.commit=true")
    assert told.code == 2, told
    assert told.err.startswith("moldau: enable.auto.commit cannot be true here: --group commits")
    file = tmp_path / "client.properties"
    file.write_text("enable.auto.commit=true\n")
    assert shell("consume", "t", "--group", "g", "--command-config", str(file)).err == told.err


def test_two_names_for_the_group_are_a_mistake(tmp_path: Path) -> None:
    """One of them would be read and committed as, and the other one told."""
    shell = Shell("127.0.0.1:1")
    done = shell("consume", "t", "--group", "g", "--set", "group.id=other")
    words = "moldau: two groups are named: --group g, and other by group.id\n"
    assert (done.code, done.err) == (2, words)
    file = tmp_path / "client.properties"
    file.write_text("group.id=other\n")
    assert shell("consume", "t", "--group", "g", "--command-config", str(file)).err == words


def test_an_empty_group_is_a_mistake() -> None:
    done = Shell("127.0.0.1:1")("consume", "t", "--group", "")
    assert (done.code, done.err) == (2, "moldau: --group cannot be empty\n")
