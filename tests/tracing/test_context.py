"""W3C Trace Context in headers: what is read, what is passed on, what is no context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.tracing import SpanContext, read_context, with_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()
NO_CONTEXT = {
    "empty": b"",
    "no trace id": f"00-{'0' * 32}-{SPAN}-01".encode(),
    "no span id": f"00-{TRACE}-{'0' * 16}-01".encode(),
    "capitals": PARENT.upper(),
    "the version that there is not": b"ff" + PARENT[2:],
    "more than its version has": PARENT + b"-x",
    "other separators": PARENT.replace(b"-", b"_"),
    "too short": PARENT[:-1],
    "no hex": PARENT.replace(b"0af", b"0xg"),
}


def test_a_context_is_read_and_written_as_it_was() -> None:
    found = read_context([("a", b"1"), ("traceparent", PARENT), ("tracestate", b"x=1")])
    assert found == SpanContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), True, b"x=1")
    assert found.parent == PARENT
    later = read_context([("traceparent", b"cc" + PARENT[2:-2] + b"02-more")])
    assert later is not None
    assert not later.is_sampled


@pytest.mark.parametrize("case", NO_CONTEXT)
def test_what_is_malformed_counts_as_absent(case: str) -> None:
    assert read_context([("traceparent", NO_CONTEXT[case])]) is None
    assert read_context([("traceparent", None)]) is None


@given(st.binary(max_size=80))
def test_no_bytes_are_an_error(value: bytes) -> None:
    found = read_context([("traceparent", value)])
    assert found is None or read_context([("traceparent", found.parent)]) == found


def test_a_context_replaces_the_one_before_and_no_other_header() -> None:
    context = SpanContext(b"\1" * 16, b"\2" * 8, True)
    headers = [("a", b"1"), ("traceparent", PARENT), ("tracestate", b"x=1"), ("a", None)]
    made = with_context(headers, context)
    assert made[:2] == (("a", b"1"), ("a", None))
    assert read_context(made) == context
