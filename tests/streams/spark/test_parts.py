"""The pure parts of the engine `spark`: what it refuses, its versions, changes and ranges."""

from __future__ import annotations

import pickle
import re
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import TopicPartition
from moldau.runtime.real_files import RealFiles
from moldau.streams import StateStore, Streams, tumbling
from moldau.streams.changelog.ranges import TopicRange
from moldau.streams.problems import StateError, StreamsError, TopologyError
from moldau.streams.serdes.types import INTERNAL_ANY
from moldau.streams.spark.changes import RecordingBacking, StoreChange, apply, decoded, encoded
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.deployment import batch_records
from moldau.streams.spark.limits import REFUSED, check, explain_spark, refusals
from moldau.streams.spark.ranges import missing_starts, task_ranges, with_starts
from moldau.streams.spark.recorded import (
    begun_text,
    check_may_write,
    has_left,
    has_run,
    left_text,
    newest_checkpoint,
    newest_run,
    recorded_text,
    recorded_version,
    taken_text,
)
from moldau.streams.spark.shipping import pickled
from moldau.streams.spark.versions import Version, from_json, stale_files, to_json, token_of
from moldau.streams.state.backing import MemoryBacking
from tests.client.guides import text_of

NOW_MS = 1_790_000_000_000


def counted(name: str = "app", store: str = "counts") -> Streams:
    app = Streams(name)
    app.stream("lines", str, key=str).group_by_key().count(name=store).changes().to("out")
    return app


def refused(what: str) -> Streams:
    app = Streams("app")
    lines = app.stream("lines", str, key=str)
    if what == "global_table":
        app.global_table("names", str, key=str)  # for queries alone
        lines.to("out")
    elif what == "global_store(...)":
        store = StateStore("own", key=str, value=str)
        app.global_store("names", str, key=str, store=store, make=lambda context: context)
        lines.to("out")
    elif what == "reply()":
        lines.reply()
    elif what == "topics by pattern":
        app.stream(re.compile("x.*"), str, key=str).to("out")
    elif what == "process(...)":
        lines.process(lambda context: context, name="own", type=str).to("out")
    elif what == "version=...":
        grouped = lines.group_by_key()
        grouped.aggregate(int, max, name="latest", version=2, migrate={1: abs}).changes().to("out")
    else:
        windows = lines.group_by_key().window(tumbling("1m"), emit="close", idle="5s")
        windows.count(name="idle").changes().to("out")
    return app


@pytest.mark.parametrize("what", REFUSED)
def test_a_step_that_spark_cannot_do_is_refused_by_name(what: str) -> None:
    plan = refused(what).plan()

    ((name, reason),) = refusals(plan).items()
    assert reason == REFUSED[what]
    with pytest.raises(TopologyError) as raised:
        check(plan)
    assert f"it cannot run on Spark: {name}: {reason}; or run the app" in str(raised.value)
    assert "\n" not in str(raised.value)
    lines = explain_spark(plan).splitlines()
    assert len([line for line in lines if name in line and reason in line]) == 1
    assert lines[-1] == "it cannot run"


def test_the_page_names_each_step_that_is_refused() -> None:
    semantics = text_of("streams-on-spark.md").partition("## Semantics")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in semantics.splitlines() if "|" in line]
    refused_rows = [each for each in cells if "refused" in each[-1]]
    named = {name for each in refused_rows for name in each[0].replace("`", "").split(", ")}

    # These are no steps of a plan: settings, calls of an app and an address.
    settings = {"max.task.idle.ms", "group.protocol", "num.standby.replicas"}
    calls = {"pause", "on_state_change", "on_exception"}
    assert named == {*REFUSED, *settings, *calls, "Spark Connect (sc://)"}


def test_explain_says_where_each_step_runs() -> None:
    plan = counted().plan()

    assert refusals(plan) == {}
    text = explain_spark(plan)
    assert "query 0: reads lines" in text
    assert "exactly once" in text
    assert text.endswith("it can run\n")
    assert "at least once" in explain_spark(plan, is_exactly_once=False)


rows = st.dictionaries(st.binary(max_size=3), st.none() | st.binary(max_size=3))


@given(st.lists(st.tuples(rows, st.tuples(st.binary(max_size=2), st.binary(max_size=2)))))
def test_recorded_changes_make_the_same_rows_elsewhere(steps: list[Any]) -> None:
    one, other, changes = MemoryBacking(), MemoryBacking(), list[StoreChange]()
    recording = RecordingBacking(one, 0, changes)
    for written, (first, end) in steps:
        recording.write(list(written.items()))
        if first < end:
            recording.delete_range(first, end)

    apply(decoded(encoded(changes), "a file"), [other])

    assert list(other.scan(b"", None)) == list(one.scan(b"", None))


def test_a_damaged_file_is_an_error_with_its_name() -> None:
    data = bytearray(encoded([StoreChange(0, b"key", b"value" * 10)]))
    data[len(data) // 2] ^= 0xFF

    with pytest.raises(StateError, match=r"0-1-2\.delta"):
        list(decoded(bytes(data), "0-1-2.delta"))


def test_a_long_chain_of_changes_becomes_a_snapshot() -> None:
    version = Version()
    for batch in range(8):
        assert not version.wants_snapshot()
        version = version.after(token_of(batch, 1, 0), 100, "", is_snapshot=False)
    assert version.wants_snapshot()

    after = version.after(token_of(8, 1, 0), 50, "times", is_snapshot=True)

    assert after.files == (f"{token_of(8, 1, 0)}.snapshot",)
    assert not after.wants_snapshot()
    assert from_json(to_json({3: after})) == {3: after}


def test_files_of_attempts_that_do_not_count_are_stale() -> None:
    kept = Version().after(token_of(1, 1, 7), 10, "", is_snapshot=False)
    names = [*kept.files, f"{token_of(1, 1, 8)}.delta", f"{token_of(9, 1, 8)}.delta"]

    assert stale_files(names, [kept], 5) == [f"{token_of(1, 1, 8)}.delta"]


def test_a_task_reads_at_most_so_many_offsets_and_knows_that_there_are_more() -> None:
    versions = {0: Version(offsets={"lines": 5, "names": 9}), 1: Version(offsets={"lines": 7})}
    ends = {
        TopicPartition("lines", 0): 30,
        TopicPartition("names", 0): 9,
        TopicPartition("lines", 1): 7,
    }

    (only,) = task_ranges(versions, ends, {"lines": "id"}, 20)

    assert (only.partition, only.before) == (0, versions[0])
    assert only.ranges == (
        TopicRange("lines", 5, 25, has_more=True, topic_id="id"),
        TopicRange("names", 9, 9),
    )


def test_a_task_begins_where_its_version_ends_and_elsewhere_at_the_start_of_the_log() -> None:
    inputs = [TopicPartition("lines", 0), TopicPartition("names", 0), TopicPartition("lines", 1)]
    versions = {0: Version("token", offsets={"lines": 5, "names": -2})}

    assert missing_starts(versions, inputs) == inputs[1:]
    assert with_starts(versions, {inputs[1]: 3, inputs[2]: 4}) == {
        0: Version("token", offsets={"lines": 5, "names": 3}),
        1: Version(offsets={"lines": 4}),
    }


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_number_of_records_that_is_none_is_refused(text: str) -> None:
    assert batch_records({"spark.batch.records.max": "7"}) == 7
    with pytest.raises(StreamsError, match=f"spark.batch.records.max: {text} is not a number"):
        batch_records({"spark.batch.records.max": text})


def test_a_topic_that_was_made_again_is_refused(tmp_path: Any) -> None:
    kept = Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)
    kept.check_topics({"lines": "one"})
    kept.check_topics({"lines": "one", "names": "two"})
    with pytest.raises(StreamsError, match="topic lines was deleted and made again"):
        kept.check_topics({"lines": "three"})
    kept.close()


def test_two_drivers_cannot_have_one_checkpoint(tmp_path: Any) -> None:
    first = Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)
    with pytest.raises(StreamsError, match="another driver"):
        Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)
    first.close()

    again = Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)
    assert (first.run, again.run) == (NOW_MS, NOW_MS + 1)
    again.close()


@pytest.mark.parametrize(
    ("app", "told"),
    [(counted("other"), "it is of the app app"), (counted(store="totals"), "inputs or stores")],
)
def test_a_checkpoint_of_another_topology_is_refused(
    tmp_path: Any, app: Streams, told: str
) -> None:
    Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS).close()

    with pytest.raises(TopologyError, match=told):
        Checkpoint.open(RealFiles(), str(tmp_path), app.plan(), NOW_MS)


def test_a_checkpoint_that_executors_do_not_reach_as_a_path_is_refused() -> None:
    with pytest.raises(StreamsError, match="s3://bucket"):
        Checkpoint.open(RealFiles(), "s3://bucket/app", counted().plan(), NOW_MS)


def test_a_batch_begins_with_the_version_before_it(tmp_path: Any) -> None:
    kept = Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)
    for batch in range(20):
        kept.commit(0, batch, {0: Version(token_of(batch, 1, 0), offsets={"lines": batch})})

    assert kept.last(0, 0) == (19, Version(token_of(19, 1, 0), offsets={"lines": 19}))
    assert kept.versions_before(0, 19)[0].offsets == {"lines": 18}
    assert kept.versions_before(0, 5) == {}  # cleaned
    kept.close()


class CountedReads(RealFiles):
    """Files that count what is read of them, by the name of the file."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def read_text(self, path: str) -> str:
        self.names.append(path.rpartition("/")[2])
        return super().read_text(path)


def test_a_batch_reads_one_file_of_the_checkpoint(tmp_path: Any) -> None:
    files = CountedReads()
    with closing(Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)) as kept:
        for batch in range(12):
            kept.commit(0, batch, {0: Version(token_of(batch, 1, 0))})
    with closing(Checkpoint.open(files, str(tmp_path), counted().plan(), NOW_MS)) as kept:
        assert kept.last(0, 0)[0] == 11
        kept.commit(0, 12, {0: Version(token_of(12, 1, 0))})
        for batch in range(13, 20):
            files.names.clear()
            kept.check_held()
            kept.commit(0, batch, {0: Version(token_of(batch, 1, 0))})
            assert files.names == ["runs"]
        assert kept.versions_before(0, 19) == {0: Version(token_of(18, 1, 0))}


def test_a_checkpoint_keeps_its_id(tmp_path: Any) -> None:
    for now_ms in (NOW_MS, NOW_MS + 1):
        kept = Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), now_ms)
        assert kept.id == str(NOW_MS)
        kept.close()


def test_a_checkpoint_takes_its_id_when_it_begins(tmp_path: Any) -> None:
    with closing(Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)) as kept:
        kept.take_id(NOW_MS + 7)
        assert kept.id == str(NOW_MS + 7)
    with closing(Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)) as kept:
        assert kept.id == str(NOW_MS + 7)


def test_a_run_is_newer_than_those_of_copies(tmp_path: Any) -> None:
    with closing(Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)) as kept:
        kept.take_run(NOW_MS - 5)
        assert kept.run == NOW_MS
        kept.take_run(NOW_MS + 5)
        kept.check_held()
    with closing(Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), 1)) as kept:
        assert kept.run == NOW_MS + 6


def test_a_move_to_a_checkpoint_is_cut_until_it_has_ended_there(tmp_path: Any) -> None:
    with closing(Checkpoint.open(RealFiles(), str(tmp_path), counted().plan(), NOW_MS)) as kept:
        for _ in range(2):  # a whole move may be done again
            kept.start_move()
            kept.write_state(0, 1, "a.snapshot", b"")
            assert (kept.is_cut, kept.has_begun) == (True, False)
            kept.start_move()
            kept.write_state(0, 1, "a.snapshot", b"")  # it is not there any more
            kept.begin({0: {1: Version()}})
            assert (kept.is_cut, kept.has_begun) == (True, False)
            kept.end_move()
            assert (kept.is_cut, kept.has_begun) == (False, True)
            assert kept.versions_before(0, 0) == {1: Version()}

        assert not kept.has_batches
        kept.commit(0, 0, {1: Version(token_of(0, 1, 0))})
        assert kept.has_batches


@pytest.mark.parametrize("is_snapshot", [False, True])
@pytest.mark.parametrize("size_bytes", [0, 7])
def test_a_recorded_version_is_found_by_a_batch_that_runs_again(
    size_bytes: int, *, is_snapshot: bool
) -> None:
    before = Version().after(token_of(4, 1, 0), 10, "", is_snapshot=False)
    times = '{"time": {"per window": 5}}'
    after = before.after(token_of(5, 1, 7), size_bytes, times, is_snapshot=is_snapshot)
    texts = {
        "old": (1, recorded_text("9", 1, Version(), before)),
        "new": (2, recorded_text("9", 1, before, after)),
        "none": (3, ""),
        "other": (4, "{}"),
    }

    assert recorded_version(texts, "9", 5, before) == after.at({"new": 2})
    assert recorded_version(texts, "9", 6, after) is None
    assert recorded_version(texts, "8", 5, before) is None
    for batch, begins in ((4, Version()), (6, before), (6, Version())):
        with pytest.raises(StateError, match="batch 5 already"):
            recorded_version(texts, "9", batch, begins)
    older = Version().after(token_of(6, 1, 0), 0, "", is_snapshot=False)
    assert recorded_version(texts, "9", 7, older) is None  # batch 6 ran without transactions


def test_the_record_of_a_beginning_is_of_no_batch_and_older_checkpoints_find_it() -> None:
    before = Version().after(token_of(4, 1, 0), 10, "", is_snapshot=False)
    texts = {"new": (2, begun_text("100", 1)), "old": (1, recorded_text("9", 1, Version(), before))}
    newest = [text for _, text in texts.values()]

    assert recorded_version(texts, "100", 0, Version()) is None
    check_may_write([*newest, "5 6 7 8"], "100", 1)
    assert newest_checkpoint([*newest, "5 6 7 8"]) == 100
    assert newest_checkpoint(["5 6 7 8"]) == -1
    assert [newest_run(newest, each) for each in ("100", "9", "8")] == [1, 1, -1]
    assert [has_run(newest, each) for each in ("100", "9", "8")] == [False, True, False]
    assert [has_left([*newest, left_text("9", 2)], each) for each in ("100", "9")] == [False, True]
    with pytest.raises(StateError, match="begun with another checkpoint after this one"):
        check_may_write(newest, "9", 1)


def test_a_task_that_was_taken_over_keeps_its_version_and_refuses_earlier_runs() -> None:
    after = Version().after(token_of(5, 1, 7), 10, "two words", is_snapshot=False)
    taken = taken_text(recorded_text("9", 1, Version(), after), "9", 2)

    assert recorded_version({"lines": (2, taken)}, "9", 5, Version()) == after.at({"lines": 2})
    for text in (taken, taken_text("", "9", 2), taken_text(begun_text("8", 7), "9", 2)):
        check_may_write([text], "9", 2)
        with pytest.raises(StateError, match="runs this app since 1970-01-01 00:00:00"):
            check_may_write([text], "9", 1)


@pytest.mark.parametrize(("checkpoint", "is_refused"), [("8", True), ("9", True), ("10", False)])
def test_only_a_checkpoint_that_is_newer_than_a_move_may_write(
    checkpoint: str, *, is_refused: bool
) -> None:
    left = [left_text("9", 2)]
    if not is_refused:
        check_may_write(left, checkpoint, 1)
        return
    with pytest.raises(StateError, match="has moved to the embedded engine"):
        check_may_write(left, checkpoint, 5)


def test_a_program_keeps_its_codecs_on_the_way_to_an_executor() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    app = Streams("app")
    app.stream("lines").group_by(lambda line: line).count(name="counts").changes().to("out")
    for program in app.plan().programs:
        found = pickle.loads(pickled(program))  # noqa: S301 - our own
        for one, other in zip(program.stores, found.stores, strict=True):
            assert (one.key is INTERNAL_ANY, one.name) == (other.key is INTERNAL_ANY, other.name)
        assert found.inputs == program.inputs
