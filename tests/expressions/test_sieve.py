"""The sieve before an expression: it leaves out no record for which the expression is true."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.commands.consume_where import RecordFilter
from moldau.client import ConsumerRecord
from moldau.expressions.sieve import BatchColumns, Column, sieve_of

NAMES = ("total", "country", "of")
TEXTS = ("NL", "N", "DE", 'a"b', "gr\u00fc\u00df", "\\", "\u0000")
PATHS = (
    "value.total",
    "value.of.total",
    'value["country"]',
    "value.of.country",
    "value",
    "key",
    "key.country",
    "headers.country",
    "headers.of.country",
    'headers["of"]',
    "partition",
    "offset",
    "timestamp",
)
NUMBERS = (0, 1, -3, 9000, 9000.5, 2**53 + 1)

scalars = st.one_of(
    st.sampled_from(TEXTS), st.sampled_from(NUMBERS), st.booleans(), st.none(), st.just(1e300)
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)


def _contents(tree: Any, way: int) -> bytes:
    """A tree as programs write it: with spaces or escapes, in another encoding, or as a text."""
    if isinstance(tree, str) and way % 2:
        return tree.encode()
    text = json.dumps(tree, ensure_ascii=way < 3, separators=(",", ":") if way == 1 else None)
    if way == 4:
        text = text.replace("N", "\\u004e").replace("total", "tota\\u006c")
    return text.encode("utf-16-le") if way == 5 else text.encode()


contents = st.one_of(
    st.none(),
    st.builds(_contents, trees, st.integers(0, 5)),
    st.sampled_from((b"\xff", b"", b'{"total', b'": 9001}', b'{"total": 1, "total": 9001}')),
)
conditions = st.one_of(
    st.builds(
        "{} {} {!r}".format,
        st.sampled_from(PATHS),
        st.sampled_from(("==", "<", "<=", ">", ">=", "!=", "is not")),
        st.one_of(st.sampled_from(TEXTS), st.sampled_from(NUMBERS)),
    ),
    st.builds("{!r} < {}".format, st.sampled_from(NUMBERS), st.sampled_from(PATHS)),
    st.builds("0 <= {} < 9001".format, st.sampled_from(PATHS)),
    st.builds("{!r} in {}".format, st.sampled_from(TEXTS), st.sampled_from(PATHS)),
    st.builds("{} in ['NL', 9000]".format, st.sampled_from(PATHS)),
    st.builds(
        "{}.{}({!r})".format,
        st.sampled_from(PATHS),
        st.sampled_from(("contains", "startswith", "endswith")),
        st.sampled_from(TEXTS),
    ),
)
expressions = st.recursive(
    conditions,
    lambda inner: st.builds(
        "({} {} {})".format, inner, st.sampled_from(("and", "or", "and not")), inner
    ),
    max_leaves=5,
)
records = st.tuples(
    contents, contents, st.lists(st.tuples(st.sampled_from(NAMES), contents), max_size=3)
)


def column(values: Sequence[bytes | None]) -> Column:
    parts = [each or b"" for each in values]
    return Column(b"".join(parts), [0, *accumulate(map(len, parts))])


def columns(found: Sequence[ConsumerRecord]) -> BatchColumns:
    headers = [content for each in found for _, content in each.headers]
    return BatchColumns(
        len(found),
        3,
        [each.offset for each in found],
        [each.timestamp for each in found],
        column([each.key for each in found]),
        column([each.value for each in found]),
        column(headers),
        [0, *accumulate(len(each.headers) for each in found)],
    )


@given(st.lists(records, min_size=1, max_size=20), expressions)
def test_no_wanted_record_is_left_out(given: list[Any], expression: str) -> None:
    found = [
        ConsumerRecord("t", 3, at, at * 1000, key, value, tuple(headers))
        for at, (key, value, headers) in enumerate(given)
    ]
    wanted = RecordFilter(expression)
    sieve = sieve_of(expression)
    left = range(len(found)) if sieve is None else sieve.candidates(columns(found))
    assert {at for at, each in enumerate(found) if wanted.is_wanted(each)} <= {*left}


@pytest.mark.parametrize(
    "expression",
    [
        'value.total > 9000 and headers.country == "NL"',
        'headers.country == "NL" and int(key) > 0',
        "9000 < value.total < 9002",
        "offset == 77",
        '"NL" in headers.country',
        'headers.country in ["NL", "BE"]',
    ],
)
def test_of_many_records_the_one_is_left(expression: str) -> None:
    found = [
        ConsumerRecord(
            "t",
            3,
            at,
            at,
            b"7",
            json.dumps({"total": 9001 if at == 77 else at}).encode(),
            (("country", b"NL" if at == 77 else b"DE"),),
        )
        for at in range(100)
    ]
    sieve = sieve_of(expression)
    assert sieve is not None
    assert sieve.candidates(columns(found)) == [77]


@pytest.mark.parametrize(
    "expression",
    ["value.total * 2 > 9000", "not value.total > 1", "value.total != 3", "len(value) > 2"],
)
def test_what_says_nothing_about_bytes_has_no_sieve(expression: str) -> None:
    assert sieve_of(expression) is None


def test_what_a_schema_decodes_is_asked_in_any_case() -> None:
    found = columns([ConsumerRecord("t", 3, 0, 0, b"k", b"\1" + b"x" * 16, ())])
    sieve = sieve_of("value.total > 9000")
    assert sieve is not None
    assert sieve.candidates(found) == []
    opaque = found.value._replace(opaque=frozenset((0,)))
    whole = BatchColumns(1, 3, [0], [0], found.key, opaque, found.headers, [0, 0])
    assert sieve.candidates(whole) == [0]
