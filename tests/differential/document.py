"""docs/compatibility.md, made from the table of differences and from what the broker serves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from moldau.broker.api.service import served_versions
from moldau.protocol.messages import API
from tests.differential.comparison import OnPurpose
from tests.differential.explained import ON_PURPOSE
from tests.differential.log_files import NOT_COMPARED

PATH: Final = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
_BOTH: Final = Path(__file__).parent / "one_cluster_of_both.md"

_BEGINNING: Final = """\
# Compatibility with Apache Kafka

moldau's broker speaks Kafka's protocol and keeps Kafka's files. It is held against Apache Kafka
4.4.0: thousands of requests, among them the ones that real clients send, go to both, and the
decoded answers have to be equal field by field; so do the files that both hold after the same
writes. `tests/differential/README.md` says how, and how to add a case. Kafka's answers are kept as
data, so `make test` compares without Java; `make differential` asks a real Kafka again.

What differs on purpose stands below, with the reason; the comparison passes over this and nothing
else, and knows for each row what moldau answers instead. Of answers, not compared are only what
chance or the machine decides: ids, times of now, sizes of disks, addresses, and the wording of
messages. What is not compared of files stands at the end of this page.

This page is made by `python -m tests.differential document`; do not edit it by hand.
"""


def text() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def write() -> None:
    PATH.write_text(text(), encoding="utf-8")


def _lines() -> Iterator[str]:
    yield _BEGINNING
    yield "## Differences on purpose"
    for area, rows in groupby(sorted(ON_PURPOSE, key=_area), key=lambda row: row.area):
        yield from ("", f"### {area}", "", "| moldau | why |", "|-|-|")
        yield from dict.fromkeys(f"| {row.what} | {row.why} |" for row in rows)
    yield from ("", _BOTH.read_text(encoding="utf-8").rstrip())
    yield from ("", "## APIs", "", "| key | API | versions |", "|-|-|-|")
    of_kafka = {key: versions for key, versions in served_versions().items() if key in API}
    for key, versions in sorted(of_kafka.items()):
        yield f"| {key} | {API[key].name} | {versions.first}-{versions.last} |"
    yield from ("", "Produce is advertised from version 0 on, as Kafka does for old librdkafka.")
    yield from ("", "## Files that are not compared", "", "| what | why |", "|-|-|")
    for what, why in NOT_COMPARED.items():
        yield f"| `{what.replace(': ', '`: ')}{'' if ': ' in what else '`'} | {why} |"


def _area(row: OnPurpose) -> int:
    """Areas in the order in which the table first has them."""
    return [each.area for each in ON_PURPOSE].index(row.area)
