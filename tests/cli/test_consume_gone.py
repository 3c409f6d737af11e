"""`moldau consume` when records go while it reads: what is still there is read, what is gone is
told."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.cli.commands.consume_place import cut_ends
from moldau.client import Consumer, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.plugins import installed_plugins
from moldau.runtime import Runtime
from tests.cli.committed_offsets import committed
from tests.cli.groups import Cluster, fill
from tests.cli.groups import cluster as cluster
from tests.cli.groups import shell as shell
from tests.cli.processes import line_of, running
from tests.cli.shell import Done, Shell
from tests.cli.topic_reading import GROUPED, read_to_the_end, reading
from tests.client.consumer.numbered_records import fill as fill_log
from tests.client.consumer.recreated_topic import delete
from tests.client.consumer.recreated_topic import make_again as make_anew
from tests.client.world import ClientWorld
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker

COUNT, KEPT = 1500, 1000
LINES = [f"{number:06}{'x' * 500}" for number in range(COUNT)]
# A reader that is at the front has little of what follows, in batches as small as those settings.
SLOW = ("--set", "fetch.max.bytes=5000", "--set", "max.partition.fetch.bytes=5000")


class Hooked(io.StringIO):
    """Calls each function once, before a text that begins with those words is written."""

    def __init__(self, calls: Mapping[str, Callable[[], object]]) -> None:
        super().__init__()
        self._calls = dict(calls)

    def write(self, text: str) -> int:
        for words in [each for each in self._calls if text.startswith(each)]:
            self._calls.pop(words)()
        return super().write(text)


def consume(
    shell: Shell,
    *words: str,
    out: Mapping[str, Callable[[], object]],
    err: Mapping[str, Callable[[], object]] | None = None,
) -> Done:
    """The command, with something that happens while it writes."""
    streams = Hooked(out), Hooked(err or {})
    context = Context(*streams, shell.environment, installed_plugins)
    code = run(("consume", *words), context)
    return Done(code, streams[0].getvalue(), streams[1].getvalue())


def produce(shell: Shell, topic: str) -> None:
    shell.good(
        *("produce", topic, "--compression", "none", "--set", "batch.size=2000"),
        source="".join(f"{line}\n" for line in LINES),
    )


def trimming(shell: Shell, topic: str) -> Callable[[], object]:
    return lambda: shell.good("topic", "trim", topic, "--before", str(KEPT))


def check(done: Done, topic: str, first: int = 0) -> None:
    """All that was read, and all that was not, without a gap."""
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    read = len(lines) - (COUNT - KEPT)
    assert 0 < read < KEPT - first, "the reader was not slow"
    assert lines == LINES[first : first + read] + LINES[KEPT:]
    told = f"{topic}-0: offsets {first + read} to {KEPT - 1} are skipped: offset {first + read} is"
    assert f"moldau: {told} not in the log any more\n" in done.err
    assert done.err.count("skipped") == 1


@pytest.mark.real
@pytest.mark.parametrize("place", ["beginning", "0", "10", "@1000", "last"])
def test_a_log_that_is_trimmed_under_a_slow_reader_is_read_from_what_is_left(
    shell: Shell, place: str
) -> None:
    topic = f"trimmed-{place.replace('@', 'at-')}"
    fill(shell, topic, [0])
    produce(shell, topic)
    words = ("--last", str(COUNT)) if place == "last" else ("--from", place)
    first = 10 if place == "10" else 0
    out = {LINES[first]: trimming(shell, topic)}
    check(consume(shell, topic, *words, *SLOW, out=out), topic, first)


@pytest.mark.real
def test_a_member_of_a_group_reads_what_is_left_too(shell: Shell) -> None:
    fill(shell, "trimmed-g", [0])
    produce(shell, "trimmed-g")
    out = {LINES[0]: trimming(shell, "trimmed-g")}
    check(consume(shell, "trimmed-g", "--group", "trimmed-group", *SLOW, out=out), "trimmed-g")


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.real
def test_who_began_at_the_end_reads_what_is_left_of_what_came_since(shell: Shell) -> None:
    fill(shell, "since", [0])
    words = ("since", "--group", "since-group", "--from", "end", "--follow")
    out = {LINES[0]: trimming(shell, "since"), LINES[-1]: interrupt}
    err = {"moldau: group since-group reads now": lambda: produce(shell, "since")}
    done = consume(shell, *words, *SLOW, out=out, err=err)
    check(Done(done.code, f"{done.out}{LINES[-1]}\n", done.err), "since")


@pytest.mark.real
def test_the_end_is_that_of_the_time_when_the_command_began(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To join a group takes a while; what comes meanwhile is not behind the end."""
    subscribe = Consumer.subscribe

    async def slowly(self: Consumer, topics: list[str], **more: Any) -> None:
        await asyncio.to_thread(shell.good, "produce", "meanwhile", source="new\n")
        await subscribe(self, topics, **more)

    fill(shell, "meanwhile", [3])
    monkeypatch.setattr(Consumer, "subscribe", slowly)
    words = ("meanwhile", "--group", "meanwhile-group", "--from", "end", "--count", "1")
    assert consume(shell, *words, out={}).out == "new\n"


def make_again(shell: Shell, topic: str, lines: str) -> None:
    """Another topic under the old name. Apache Kafka has forgotten the old one when it has."""
    shell.good("topic", "delete", topic)
    eventually(lambda: shell("topic", "create", topic, "--partitions", "1").code == 0)
    eventually(lambda: shell("produce", topic, source=lines).code == 0)


@pytest.mark.real
@pytest.mark.parametrize("place", ["beginning", "1"])
def test_a_topic_that_is_made_again_is_followed_from_its_beginning(
    shell: Shell, cluster: Cluster, place: str
) -> None:
    topic = f"again-{place}"
    fill(shell, topic, [1])
    words = ("consume", topic, "--from", place, "--follow", "--keys")
    with running(cluster, *words, *("--set", "metadata.max.age.ms=200")) as process:
        if place == "beginning":
            assert line_of(process.stdout) == "null:0-0\n"
        else:
            shell.good("produce", topic, "--keys", source="a:1\n")
            assert line_of(process.stdout) == "a:1\n"
        make_again(shell, topic, "first\nsecond\n")
        assert line_of(process.stdout) == "null:first\n"
        assert line_of(process.stdout) == "null:second\n"
        process.send_signal(signal.SIGINT)


@pytest.mark.real
@pytest.mark.parametrize("group", [False, True])
def test_reading_to_the_end_ends_where_the_log_has_become_shorter(
    shell: Shell, *, group: bool
) -> None:
    """The end that there was at the beginning is not reached any more."""
    topic = f"shorter-{group}".lower()
    fill(shell, topic, [0])
    produce(shell, topic)
    member = ("--group", "shorter-group") if group else ()
    words = (topic, *SLOW, "--set", "metadata.max.age.ms=200", *member)
    out = {LINES[0]: lambda: make_again(shell, topic, "new\n")}
    done = consume(shell, *words, out=out)
    assert done.code == 0, done.err
    assert done.out.endswith("\nnew\n")


@pytest.mark.real
def test_a_place_that_is_not_in_the_log_is_told(shell: Shell) -> None:
    fill(shell, "places", [6])
    shell.good("topic", "trim", "places", "--before", "4")
    done = shell("consume", "places", "--from", "1")
    assert (done.code, done.out) == (0, "0-4\n0-5\n")
    assert done.err == "moldau: places-0: offsets 1 to 3 are skipped: the log begins at 4\n"
    one = shell("consume", "places", "--from", "3").err
    assert one == "moldau: places-0: offset 3 is skipped: the log begins at 4\n"
    for words in (("--from", "4"), ("--last", "6"), ("--from", "@1"), ("--from", "-1h")):
        assert shell.good("consume", "places", *words).out == "0-4\n0-5\n"
    for place, told in (("9", "9 is beyond it"), ("@9999999999999", None)):
        done = shell("consume", "places", "--from", place)
        assert (done.code, done.out) == (0, "")
        assert done.err in (
            f"moldau: places-0: the log ends at 6: {told}\n",
            "moldau: places-0: no record is that new: the log ends at 6\n",
        )


@pytest.mark.real
def test_reading_ends_before_the_place_of_to(shell: Shell) -> None:
    # The records are older than what a topic keeps by default.
    shell.good("topic", "create", "until", "-p", "1", "-c", "retention.ms=-1")
    for at in (1000, 2000, 3000):
        line = json.dumps({"value": str(at), "timestamp": at})
        shell.good("produce", "until", "--json", source=f"{line}\n")
    for words, out in (
        (("--to", "1"), "1000\n"),
        (("--to", "@2000"), "1000\n"),
        (("--from", "1", "--to", "@2001"), "2000\n"),
        (("--from", "2", "--to", "1"), ""),
        (("--to", "-1h"), "1000\n2000\n3000\n"),
        (("--to", "7"), "1000\n2000\n3000\n"),
        (("--last", "1", "--to", "2"), "2000\n"),
        (("--last", "9", "--to", "@2001"), "1000\n2000\n"),
        (("--last", "2", "--to", "7"), "2000\n3000\n"),
    ):
        assert shell.good("consume", "until", *words).out == out
    for more in (("--follow",), ("--group", "g")):
        assert shell("consume", "until", "--to", "1", *more).code == 2


@pytest.mark.real
@pytest.mark.parametrize("group", [(), ("--group", "beyond-group")])
def test_who_begins_beyond_the_end_is_given_nothing_that_lies_before(
    shell: Shell, cluster: Cluster, group: tuple[str, ...]
) -> None:
    topic = f"beyond-{len(group)}"
    fill(shell, topic, [6])
    words = ("consume", topic, "--from", "9", "--follow", *group)
    with running(cluster, *words) as process:
        told = line_of(process.stderr)
        assert re.search("reads now|the log ends at 6: reading begins there, not later", told)
        if group:  # a member says that it reads before it has looked up where
            eventually(lambda: committed(shell, group[1]) == [6])
        shell.good("produce", topic, source="next\n")
        assert line_of(process.stdout) == "next\n"
        process.send_signal(signal.SIGINT)


class Odd:
    """A client that is told of nothing in time."""

    def __init__(self, ends: ErrorCode, topics: ErrorCode | None = None) -> None:
        self.ends = ends
        self.topics = topics

    async def offsets(self, _: object) -> Any:
        raise KafkaError(self.ends)

    async def partitions(self, *_: str, timeout_s: float) -> list[TopicPartition]:
        if self.topics is not None:
            raise KafkaError(self.topics)
        return [WHERE]


WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize("topics", [ErrorCode.BROKER_NOT_AVAILABLE, None])
def test_what_is_asked_of_a_broker_that_is_away_is_asked_later(topics: ErrorCode | None) -> None:
    ends = {WHERE: 9}
    notes: list[str] = []
    away: Any = Odd(ErrorCode.BROKER_NOT_AVAILABLE, topics)
    assert asyncio.run(cut_ends(away, ends, notes)) == []
    assert (ends, notes) == ({WHERE: 9}, [])


@pytest.mark.parametrize(
    "odd",
    [
        Odd(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        Odd(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_what_may_not_be_asked_is_an_error(odd: Any) -> None:
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        asyncio.run(cut_ends(odd, {WHERE: 9}, []))


@GROUPED
@pytest.mark.parametrize("is_made_again", [False, True])
def test_reading_to_the_end_ends_where_the_topic_is_deleted(
    *, is_group: bool, is_made_again: bool
) -> None:
    """Of one that is made again with fewer partitions the others are gone too."""

    async def main(runtime: Runtime) -> None:
        async with reading(runtime, is_group=is_group) as reader, asyncio.timeout(60):
            await reader.begin(["t", "u"])
            delete(world)
            if is_made_again:
                make_anew(world, 1, 10)
            found = await read_to_the_end(reader)
            assert found == {0: list(range(10)) * (2 if is_made_again else 1)}
            told = [each for each in reader.notes if each.endswith("its topic was deleted")]
            gone = [1] if is_made_again else [0, 1]
            assert told == [f"t-{each} is gone: its topic was deleted" for each in gone]
            assert not reader.is_whole

    with ClientWorld() as world:
        for log in (*world.cluster.add_topic("t", [1, 1]), *world.cluster.add_topic("u", [1])):
            fill_log(log, 10)
        world.run_client(main)
        stored = world.cluster.groups.offsets.get("g", {})
        assert stored.get(("u", 0)) == (10 if is_group else None)
