"""The series that clients push (KIP-714), and how many do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page, escaped
from moldau.broker.exposition.slices import AT_ONCE
from moldau.broker.exposition.table import OURS, Row

if TYPE_CHECKING:
    from moldau.broker.api.node import Node

_NS_PER_MS: Final = 1_000_000


def clients(page: Page, node: Node) -> Iterator[None]:
    """Write the figures of every client."""
    known = node.telemetry
    known.expire(node.runtime.clock.monotonic_ns() // _NS_PER_MS)
    page.add(table.client_instances, len(known.instances))
    for result, count in known.pushes.items():
        page.add(table.client_pushes, count, result)
    page.add(table.client_left_out, known.figures.left_out)
    for number, ((name, is_counter, labels), value) in enumerate(known.figures.series()):
        if number % AT_ONCE == 0:
            yield
        kind = "counter" if is_counter else "gauge"
        row = Row(name, kind, "A client pushed it (KIP-714).", origin=OURS)
        text = ",".join(f'{label}="{escaped(each)}"' for label, each in labels)
        page.adder(row)(f"{name}{{{text}}} {value}")
