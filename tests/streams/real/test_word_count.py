"""The issue's apps under `moldau streams run`: counts are right over restarts and kills."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.streams.real.running import App

pytestmark = pytest.mark.real

LINES = ["a b a", "c a", "b", "", "d d d d"]
COUNTS = {"a": 3, "b": 2, "c": 1, "d": 4}
MINUTE_MS = 60_000
NOON_MS = 1_700_000_000_000 // MINUTE_MS * MINUTE_MS
MANY = [f"word-{number:05}" for number in range(20_000)]


def test_words_are_counted_over_a_clean_restart(moldau: MoldauBroker, tmp_path: Path) -> None:
    app = App(moldau.bootstrap_servers, f"words-{tmp_path.name}", tmp_path).make()
    process = app.start()
    app.write(*LINES)
    app.read(lambda found: found == COUNTS)
    app.stop(process)
    process = app.start()
    app.write("a e")
    app.read(lambda found: found == {**COUNTS, "a": 4, "e": 1})
    app.stop(process)
    assert app.restored() == 0


def test_after_kill_counts_are_at_least_exact_and_the_tail_alone_is_restored(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    settings = ("commit.interval.ms=200", "rocksdb.write.buffer.bytes=65536")
    name = f"killed-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, settings=settings).make()
    process = app.start()
    for end in range(5000, len(MANY) + 1, 5000):
        app.write(*MANY[end - 5000 : end])
        app.read(lambda found, end=end: len(found) == end)  # type: ignore[misc]
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    total = app.changelog_records()
    process = app.start()
    app.write(*MANY[:100])
    counts = app.read(lambda found: all(found.get(word, 0) >= 2 for word in MANY[:100]))
    assert all(counts[word] >= 1 for word in MANY)
    app.stop(process)
    assert 0 < app.restored() < total
    process = app.start()
    app.write("last")
    app.read(lambda found: found.get("last"))
    app.stop(process)
    assert app.restored() < total


def test_a_stream_of_topics_with_unequal_partition_counts_reads_all_of_them(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"both-{tmp_path.name}", tmp_path, "both").make()
    counts = {f"{app.name}-wide": 4, f"{app.name}-narrow": 2}
    with Admin(bootstrap_servers=app.servers) as admin:
        for topic, count in counts.items():
            admin.create_topic(NewTopic(topic, count, 1))
    sent = {f"{topic} {at}": at for topic, count in counts.items() for at in range(count)}
    with Producer(bootstrap_servers=app.servers) as producer:
        for key, at in sent.items():
            value = str(at).encode()
            producer.send(key.split()[0], value, key=key.encode(), partition=at).result()
    process = app.start()
    app.read(lambda found: found == sent)
    app.stop(process)


def test_windows_are_counted_over_a_clean_restart(moldau: MoldauBroker, tmp_path: Path) -> None:
    def key(windowed: bytes) -> tuple[str, int]:
        return windowed[:-8].decode(), int.from_bytes(windowed[-8:], "big")

    app = App(moldau.bootstrap_servers, f"windows-{tmp_path.name}", tmp_path, "windows").make()
    process = app.start()
    app.write("a b a", timestamp_ms=NOON_MS + 1)
    noon = {("a", NOON_MS): 2, ("b", NOON_MS): 1}
    app.read(lambda found: found == noon, key=key)  # the next one may go to another partition
    app.write("a", timestamp_ms=NOON_MS + MINUTE_MS + 6000)
    first = {**noon, ("a", NOON_MS + MINUTE_MS): 1}
    app.read(lambda found: found == first, key=key)
    app.stop(process)
    process = app.start()
    app.write("a a", timestamp_ms=NOON_MS + MINUTE_MS + 1)
    app.write("a", timestamp_ms=NOON_MS)  # too late: the window has closed before the restart
    app.write("b", timestamp_ms=NOON_MS + 2 * MINUTE_MS)
    then = {("a", NOON_MS + MINUTE_MS): 3, ("b", NOON_MS + 2 * MINUTE_MS): 1}
    app.read(lambda found: found == first | then, key=key)
    app.stop(process)
    assert app.restored() == 0


def test_several_workers_are_processes_of_one_supervisor(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"several-{tmp_path.name}", tmp_path).make()
    process = app.start("--workers", "2")
    app.write(*LINES)
    app.read(lambda found: found == COUNTS)
    workers = [app.state / app.name / str(index) / "tasks" for index in range(2)]
    eventually(lambda: all(each.is_dir() for each in workers), within_s=60)
    app.write("e")
    app.read(lambda found: found == {**COUNTS, "e": 1})
    app.stop(process)
