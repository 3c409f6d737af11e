"""Headers of records: functions that read them, and the operator that changes them."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams import RecordFailed, Streams, TopologyError

OWN = [("kind", b"new"), ("none", None)]


def text_of(headers: Any) -> str:
    return " ".join(f"{name}={content!r}" for name, content in headers)


def result(build: Any, **options: Any) -> list[tuple[Any, Any, Any]]:
    app = Streams("app")
    build(app.stream("in", str, key=str)).to("out")
    driver = app.test(**options)
    driver.pipe("in", "with", key="k", headers=OWN)
    driver.pipe("in", "without", key="k")
    return [(each.key, each.value, tuple(each.headers)) for each in driver.read("out", type=str)]


async def later(value: str, *, headers: Any) -> str:
    return f"{value} {text_of(headers)}"


SEEN = "kind=b'new' none=None"


@pytest.mark.parametrize("batch", [1, 500])
@pytest.mark.parametrize(
    ("build", "values"),
    [
        (lambda s: s.map_values(lambda v, *, headers: f"{v} {text_of(headers)}"), 2),
        (lambda s: s.map_values(lambda k, v, *, headers: f"{v} {text_of(headers)}", type=str), 2),
        (lambda s: s.map(lambda k, v, *, headers: (k, f"{v} {text_of(headers)}"), type=str), 2),
        (lambda s: s.flat_map(lambda v, *, headers: [f"{v} {text_of(headers)}"], type=str), 2),
        (lambda s: s.map_values(later, type=str), 2),
    ],
)
def test_a_function_that_names_headers_is_given_them(build: Any, values: int, batch: int) -> None:
    assert result(build, batch=batch) == [
        ("k", f"with {SEEN}", tuple(OWN)),
        ("k", "without ", ()),
    ]


def test_filters_and_peeks_read_headers() -> None:
    seen: list[str] = []

    def is_new(value: str, *, headers: Any) -> bool:
        return ("kind", b"new") in headers

    kept = result(lambda s: s.peek(lambda v, *, headers: seen.append(text_of(headers))))
    assert [value for _, value, _ in kept] == ["with", "without"]
    assert seen == [SEEN, ""]
    assert [value for _, value, _ in result(lambda s: s.filter(is_new))] == ["with"]
    assert [value for _, value, _ in result(lambda s: s.filter_not(is_new))] == ["without"]


def test_headers_are_replaced_before_all_that_follows() -> None:
    def build(stream: Any) -> Any:
        marked = stream.map_headers(lambda v, *, headers: [*headers, ("of", v.encode())])
        return marked.filter(lambda v, *, headers: headers[-1][0] == "of").repartition("again")

    assert result(build) == [
        ("k", "with", (*OWN, ("of", b"with"))),
        ("k", "without", (("of", b"without"),)),
    ]
    assert result(lambda s: s.map_headers(lambda value: ())) == [
        ("k", "with", ()),
        ("k", "without", ()),
    ]


def test_what_are_no_headers_fails_the_record_and_its_policy_decides() -> None:
    with pytest.raises(RecordFailed, match="map_headers"):
        result(lambda s: s.map_headers(lambda value: {"kind": "new"}))
    found = result(
        lambda s: s.map_headers(lambda value, *, headers: "bad" if headers else [], on_error="skip")
    )
    assert found == [("k", "without", ())]


def test_an_operator_without_headers_names_those_with_them() -> None:
    for build in (
        lambda s: s.group_by(lambda value, *, headers: value).count(name="n").changes(),
        lambda s: s.to_table(name="t").map_values(lambda value, *, headers: value).changes(),
    ):
        with pytest.raises(TopologyError, match=r"takes headers.*map_values"):
            result(build)
