"""Many records at once, from Arrow's buffers and from lists: the same records come out."""

from __future__ import annotations

import sys
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import Producer
from moldau.client.producer.columns import ArrowColumn, Columns, from_arrow, is_arrow
from moldau.client.producer.run import BufferRun, content
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError
from moldau.records import BatchBuilder, Record, Spans, open_batch, partition_for_key
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld

pyarrow = pytest.importorskip("pyarrow", reason="Arrow data needs pyarrow")

CONTENTS = st.lists(st.none() | st.binary(max_size=50), max_size=40)
KINDS = [pyarrow.binary(), pyarrow.large_binary()]


def column(values: Any) -> ArrowColumn:
    found = from_arrow(Columns(values)).values
    assert isinstance(found, ArrowColumn)
    return found


@given(CONTENTS, CONTENTS, st.sampled_from(KINDS), st.integers(0, 20), st.integers(0, 20))
def test_a_sliced_and_chunked_column_is_read_from_its_buffers(
    first: list[bytes | None], second: list[bytes | None], kind: Any, start: int, size: int
) -> None:
    whole = pyarrow.chunked_array([pyarrow.array(first, kind), pyarrow.array(second, kind)])
    part = whole.slice(min(start, len(whole)), size)
    expected = (first + second)[start : start + size]
    found = column(part)
    assert len(found) == len(expected)
    assert found.to_list() == expected
    spans = found.spans()
    assert [content(each, index) for each in spans for index in range(each.length)] == expected
    builder, plain = BatchBuilder(), BatchBuilder()
    for each in spans:
        assert BufferRun(7, each).fill(builder, 0) == each.length
    plain.extend([(7, None, value, ()) for value in expected])
    assert (builder.count, builder.size_bytes) == (plain.count, plain.size_bytes)
    assert builder.take() == plain.take()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pyarrow.array(["a", None, "\u00e9"]), [b"a", None, "\u00e9".encode()]),
        (pyarrow.array(["a"], pyarrow.large_string()), [b"a"]),
        (pyarrow.array([b"abc", None], pyarrow.binary(3)), [b"abc", None]),
        (pyarrow.array(["x", "y", "x"]).dictionary_encode(), [b"x", b"y", b"x"]),
        (pyarrow.array([None, None]), [None, None]),
        (pyarrow.array(["view"], pyarrow.string_view()), [b"view"]),
        (pyarrow.array([], pyarrow.binary()), []),
    ],
)
def test_every_kind_of_text_and_binary_can_be_a_column(
    values: Any, expected: list[bytes | None]
) -> None:
    assert column(values).to_list() == expected


class Foreign:
    """An array or table of another library, that has nothing but Arrow's C interface."""

    def __init__(self, data: Any) -> None:
        self._data = data
        mark = "__arrow_c_stream__" if hasattr(data, "__arrow_c_stream__") else "__arrow_c_array__"
        setattr(type(self), mark, lambda me, schema=None: getattr(me._data, mark)(schema))


def test_whatever_speaks_arrows_interface_will_do() -> None:
    class Stream(Foreign): ...

    class Single(Foreign): ...

    class Table(Foreign): ...

    assert column(Single(pyarrow.array([b"a"]))).to_list() == [b"a"]
    assert column(Stream(pyarrow.chunked_array([[b"a"], [b"b"]]))).to_list() == [b"a", b"b"]
    found = from_arrow(Columns(Table(pyarrow.table({"value": [b"v"], "key": [b"k"]}))))
    assert found.as_lists()[:2] == ([b"v"], [b"k"])
    assert not is_arrow([b"a"])
    assert not is_arrow((b"a",))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Columns(pyarrow.array([1, 2])), "must be binary or text, not int64"),
        (Columns(pyarrow.array([1.5])), "must be binary or text, not double"),
        (Columns(pyarrow.array([[b"a"]])), "must be binary or text, not list"),
        (Columns(pyarrow.table({"key": [b"k"]})), "a column value"),
        (Columns(pyarrow.table({"value": [b"v"], "colour": ["red"]})), "colour"),
        (Columns(pyarrow.table({"value": [b"v"]}), [b"k"]), "a table has all columns itself"),
        (Columns(pyarrow.table({"value": [1]})), "the column value must be binary or text"),
    ],
)
def test_what_is_no_table_of_records_is_refused(given: Columns, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        from_arrow(given)


HEADERS = r"the column headers must be a map of text to binary or text, or lists of structs"
TIMES = r"must be milliseconds since 1970 \(integers\), timestamps or dates"
PAIR = {"key": "h", "value": b"1"}


@pytest.mark.parametrize(
    ("name", "column", "told"),
    [
        ("headers", ["h"], f"{HEADERS}.*, not string"),
        ("headers", [5], f"{HEADERS}.*, not int64"),
        ("headers", [["h", "x"]], f"{HEADERS}.*, not list<item: string>"),
        ("headers", [[{"k": "h", "v": b"1"}]], f"{HEADERS}.*, not list<item: struct<k"),
        ("headers", [[{**PAIR, "more": 1}]], f"{HEADERS}.*, not list"),
        ("headers", [[{"key": b"h", "value": b"1"}]], f"{HEADERS}.*, not list"),
        ("headers", [[{"key": "h", "value": 1}]], f"{HEADERS}.*, not list"),
        (
            "headers",
            pyarrow.array([[("h", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
            rf"{HEADERS}.*, not map<string, int64>",
        ),
        ("timestamp", ["1000"], f"the column timestamp {TIMES}, not string"),
        ("timestamp", [1.5], f"the column timestamp {TIMES}, not double"),
        ("timestamp", [True], f"the column timestamp {TIMES}, not bool"),
        ("partition", ["0"], "the column partition must be integers, not string"),
        ("partition", [0.0], "the column partition must be integers, not double"),
    ],
)
def test_a_column_of_another_kind_is_refused_by_its_name(name: str, column: Any, told: str) -> None:
    table = pyarrow.table({"value": [b"v"], name: column})
    with pytest.raises(TypeError, match=told):
        from_arrow(Columns(table))
    argument = {"timestamp": "timestamps_ms"}.get(name, name)
    with pytest.raises(TypeError, match=told.replace("column timestamp", "column timestamps_ms")):
        from_arrow(Columns([b"v"])._replace(**{argument: pyarrow.array(column)}))


def test_a_table_beside_the_values_is_refused() -> None:
    table = pyarrow.table({"key": [b"k"]})
    for given_table in (table, table.to_batches()[0]):
        with pytest.raises(TypeError, match="keys must be one column, not a "):
            from_arrow(Columns([b"v"], given_table))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pyarrow.array([5, None]), [5, None]),
        (pyarrow.array([5, 6], pyarrow.uint64()), [5, 6]),
        (pyarrow.array([5_000, None], pyarrow.timestamp("us")), [5, None]),
        (pyarrow.array([1, None], pyarrow.timestamp("s", tz="Europe/Prague")), [1000, None]),
        (pyarrow.array([date(1970, 1, 2), None]), [86_400_000, None]),
        (pyarrow.array([date(1970, 1, 2)], pyarrow.date64()), [86_400_000]),
        (pyarrow.chunked_array([[1], [2]]), [1, 2]),
        (pyarrow.nulls(2), [None, None]),
    ],
)
def test_times_may_be_numbers_timestamps_and_dates(column: Any, expected: list[int | None]) -> None:
    found = from_arrow(Columns([b"v"] * len(column), timestamps_ms=column))
    assert found.timestamps_ms == expected


@pytest.mark.parametrize("values", [[b"1", b"2", b"3"], pyarrow.array([b"1", b"2", b"3"])])
def test_arrays_may_stand_beside_whatever_values(values: Any) -> None:
    class Numbers(Foreign): ...

    kind = pyarrow.map_(pyarrow.string(), pyarrow.binary())
    found = sent(
        2,
        values,
        {
            "keys": [b"a", None, b"c"],
            "headers": pyarrow.array([[("h", b"1")], None, []], kind),
            "timestamps_ms": pyarrow.array([5_000_000, None, 7_000_000]),
            "partition": Numbers(pyarrow.array([1, 1, 0], pyarrow.int8())),
        },
    )
    assert found == [
        [(b"3", b"c", (), 7000)],
        [(b"1", b"a", (("h", b"1"),), 5000), (b"2", None, (), "now")],
    ]


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pyarrow.array([b"v"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'moldau\[arrow\]'"):
        from_arrow(Columns(values))


def test_damaged_buffers_are_refused_one_by_one_too() -> None:
    with pytest.raises(ValueError, match="leads out of the data"):
        content(Spans(b"abc", (2).to_bytes(4, "little") + b"\x7f\0\0\0", 4, None, 0, 1), 0)


def records_of(world: ClientWorld, topic: str) -> list[list[Record]]:
    return [
        [record for data in log.batches for record in open_batch(data).records()]
        for log in world.cluster.topics[topic]
    ]


def sent(partitions: int, *arguments: Any, **options: Any) -> list[list[tuple[Any, ...]]]:
    """What stands in the partitions after one `send_many`, timestamps relative to the start."""
    start = 0

    async def main(runtime: Runtime) -> None:
        nonlocal start
        start = runtime.clock.wall_ms()
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as sender:
            values, more = arguments[0], arguments[1] if len(arguments) > 1 else {}
            await (await sender.send_many("t", values, **more))

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2, 1, 2][:partitions])
        world.run_client(main)
        return [
            [
                (each.value, each.key, each.headers, each.timestamp // 1000)
                if each.timestamp < start
                else (each.value, each.key, each.headers, "now")
                for each in partition
            ]
            for partition in records_of(world, "t")
        ]


def test_a_table_says_everything_itself() -> None:
    table = pyarrow.table(
        {
            "value": [b"a", None, b"c", b"d"],
            "key": ["x", "y", None, "z"],
            "headers": pyarrow.array(
                [[("h", b"1")], None, [("g", None), ("h", b"2")], []],
                pyarrow.map_(pyarrow.string(), pyarrow.binary()),
            ),
            "timestamp": pyarrow.array([5_000_000, None, 7_000_000, 8_000_000]).cast(
                pyarrow.timestamp("us")
            ),
            "partition": pyarrow.array([1, 0, 1, None], pyarrow.int32()),
        }
    )
    found = sent(2, table)
    last = (b"d", b"z", (), 8)
    assert last in found[partition_for_key(b"z", 2)]
    assert [[each for each in part if each != last] for part in found] == [
        [(None, b"y", (), "now")],
        [(b"a", b"x", (("h", b"1"),), 5), (b"c", None, (("g", None), ("h", b"2")), 7)],
    ]


def test_headers_may_be_a_list_of_structs_too() -> None:
    headers = pyarrow.array([[{"key": "h", "value": "text"}]])
    assert sent(1, pyarrow.table({"value": [b"v"], "headers": headers})) == [
        [(b"v", None, (("h", b"text"),), "now")]
    ]


@pytest.mark.parametrize("partition", [None, 1])
@pytest.mark.parametrize("keyless", [None, 0, 1])
def test_arrays_and_lists_give_the_same_batches(partition: int | None, keyless: int | None) -> None:
    """Without keys, with some, and with one for each record."""
    values = [b"%d" % number if number % 7 else None for number in range(500)]
    keys = [
        b"k%d" % (number % 10) if number % 3 >= (keyless or 0) else None for number in range(500)
    ]
    more: dict[str, Any] = {"partition": partition, "timestamps_ms": 9000}
    arrow: dict[str, Any] = dict(more)
    if keyless is not None:
        more["keys"], arrow["keys"] = keys, pyarrow.array(keys)
    chunked = pyarrow.chunked_array([values[:100], values[100:]], pyarrow.binary())
    for given_values in (pyarrow.array(values), chunked):
        assert sent(4, given_values, arrow, batch_size=300) == sent(4, values, more, batch_size=300)


def test_keys_that_are_cut_elsewhere_than_values_stay_with_them() -> None:
    values = pyarrow.chunked_array([[b"1", b"2"], [b"3"]])
    keys = pyarrow.chunked_array([[b"a"], [b"b", b"c"]])
    (found,) = sent(1, values, {"keys": keys, "partition": 0})
    assert [(value, key) for value, key, _, _ in found] == [
        (b"1", b"a"),
        (b"2", b"b"),
        (b"3", b"c"),
    ]


def test_every_record_may_name_its_partition_and_its_time() -> None:
    found = sent(
        2,
        [b"1", b"2", b"3", b"4"],
        {
            "partition": [1, None, 0, 1],
            "timestamps_ms": [1000, None, 3000, 4000],
            "keys": [None, b"key", None, None],
        },
    )
    assert (b"2", b"key", (), "now") in found[partition_for_key(b"key", 2)]
    flat = [[each for each in part if each[1] is None] for part in found]
    assert flat == [[(b"3", None, (), 3)], [(b"1", None, (), 1), (b"4", None, (), 4)]]


@pytest.mark.parametrize(
    ("values", "more", "error"),
    [
        ([b"1", b"2"], {"keys": [b"a"]}, ValueError),
        ([b"1", b"2"], {"headers": [()]}, ValueError),
        ([b"1", b"2"], {"timestamps_ms": [1]}, ValueError),
        ([b"1", b"2"], {"partition": [0]}, ValueError),
        ([b"1"], {"partition": [7]}, KafkaError),
        ([b"1"], {"partition": 7}, KafkaError),
        ([b"1", "text"], {}, TypeError),
        ([b"1"], {"keys": ["text"]}, TypeError),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    values: Any, more: Any, error: type[Exception]
) -> None:
    async def main(runtime: Runtime) -> None:
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as sender:
            with pytest.raises(error):
                await sender.send_many("t", values, **more)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_an_error_in_the_middle_says_how_many_are_on_their_way() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, max_request_size=1000, batch_size=500
        ) as sender:
            with pytest.raises(KafkaError, match=r"max\.request\.size") as caught:
                await sender.send_many("t", [b"small"] * 5 + [bytes(2000), b"after"])
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        facts = {name: error.context[name] for name in ("accepted", "records", "at", "left")}
        assert facts == {"accepted": 5, "records": 7, "at": 5, "left": (5, 6)}
        assert log.values() == [b"small"] * 5


@pytest.mark.parametrize("in_arrow", [False, True])
@pytest.mark.parametrize("how", ["keys", "some keys", "partitions"])
def test_an_error_in_the_middle_says_which_are_not_on_their_way(how: str, in_arrow: bool) -> None:
    """They go partition by partition; sent again without the one that cannot be, each is there
    once, in its order."""
    count, bad = 1_200, 700
    values = [b"%05d" % number for number in range(count)]
    columns: dict[str, Any] = {}
    if how == "partitions":
        columns["partition"] = [number * 7 % 3 for number in range(count)]
    else:
        columns["keys"] = [
            None if how == "some keys" and number % 5 == 0 else b"%d" % (number % 40)
            for number in range(count)
        ]

    async def main(runtime: Runtime) -> None:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, max_request_size=1000, batch_size=500
        ) as sender:
            asked = [*values[:bad], bytes(2000), *values[bad + 1 :]]
            given = {"values": asked, **columns}
            if in_arrow:
                given = {name: pyarrow.array(each) for name, each in given.items()}
            with pytest.raises(KafkaError, match=r"max\.request\.size") as caught:
                await sender.send_many("t", **given)
            facts = caught.value.context
            left: Any = facts["left"]
            assert (facts["at"], facts["accepted"]) == (bad, count - len(left))
            assert "more]" in str(caught.value)
            again = [index for index in left if index != bad]
            its = {name: [column[index] for index in again] for name, column in columns.items()}
            await sender.send_many("t", [values[index] for index in again], **its)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 1, 1])
        world.run_client(main)
    found: list[list[Any]] = [log.values() for log in logs]
    assert sorted(value for each in found for value in each) == values[:bad] + values[bad + 1 :]
    if how != "some keys":
        assert found == [sorted(each) for each in found]
