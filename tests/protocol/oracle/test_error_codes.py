"""Our table of error codes against Kafka's own, both ways, as golden data keeps it."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from tests.protocol.oracle import golden


def test_numbers_and_names_are_kafkas() -> None:
    ours = {code.value: code.name for code in ErrorCode}
    assert ours == {row["code"]: row["name"] for row in golden.errors()}


def test_what_a_client_may_do_about_an_error_is_kafkas() -> None:
    ours = {code.name: (code.retriable, code.refreshes_metadata) for code in ErrorCode}
    assert ours == {
        row["name"]: (row["retriable"], row["refreshes_metadata"]) for row in golden.errors()
    }


def test_no_name_stands_for_two_codes() -> None:
    assert len(ErrorCode.__members__) == len(golden.errors())
