"""Which requests hold the order of their connection, and until when."""

from __future__ import annotations

from typing import Any, cast

import pytest

from moldau.broker.api.handlers import APIS
from moldau.broker.api.ordering import AT_ONCE, BY_THEMSELVES, READS, UNHELD, in_order
from moldau.broker.api.service import served_versions
from moldau.protocol.messages import api


class Held:
    """Notes what is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def hold_order(self) -> None:
        self.calls.append("hold")


def test_each_api_that_does_not_hold_the_order_is_served_and_has_one_reason() -> None:
    served = {api(key).name for key in served_versions()}

    assert served >= UNHELD
    assert len(UNHELD) == len(READS) + len(AT_ONCE) + len(BY_THEMSELVES)


def test_no_read_of_an_api_that_changes_something_goes_unheld() -> None:
    verbs = ("Add", "Alter", "Create", "Delete", "Elect", "Init", "Remove", "Update", "Write")

    assert [name for name in sorted(READS) if name.startswith(verbs)] == []
    assert [key for key, row in APIS.items() if row.is_forwarded and api(key).name in AT_ONCE] == []


@pytest.mark.parametrize("name", ["InitProducerId", "TxnOffsetCommit", "CreateTopics"])
def test_a_request_holds_the_order_once_it_is_begun(name: str) -> None:
    held = Held()
    serve = in_order(api(name).key, lambda node, request: held.calls.append("serve"))

    serve(cast(Any, None), cast(Any, held))

    assert held.calls == ["serve", "hold"]


@pytest.mark.parametrize("name", ["Produce", "Fetch", "OffsetCommit", "EndTxn"])
def test_the_handler_of_an_unheld_api_is_called_directly(name: str) -> None:
    def serve(node: Any, request: Any) -> None:
        raise AssertionError("only compared")

    assert in_order(api(name).key, serve) is serve
