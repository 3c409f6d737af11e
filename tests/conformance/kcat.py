"""kcat, Debian's librdkafka on the command line: the client of everybody's shell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

import pytest

from tests.conformance.records import Record

_TIMEOUT_S: Final = 60
# Lengths first, so that null (-1) and empty (0) can be told apart and any byte may come.
_FORMAT: Final = "%p %o %T %K %S\\n%k%s\\n"


def find_kcat() -> str | None:
    return shutil.which("kcat") or shutil.which("kafkacat")


def kcat(bootstrap: str, *arguments: str, text: bytes = b"") -> bytes:
    """What it prints. The test is skipped where there is no kcat."""
    program = find_kcat()
    if program is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    done = subprocess.run(  # noqa: S603 - the kcat that was found
        [program, "-b", bootstrap, *arguments],
        input=text,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def kcat_consumed(bootstrap: str, topic: str, *arguments: str) -> dict[int, list[Record]]:
    """All that it reads of a topic until its end, by partition; without headers."""
    out = kcat(bootstrap, "-C", "-q", "-e", "-t", topic, "-f", _FORMAT, *arguments)
    found: dict[int, list[Record]] = {}
    position = 0
    while position < len(out):
        end = out.index(b"\n", position)
        partition, offset, stamp, key_size, size = map(int, out[position:end].split())
        key, position = _taken(out, end + 1, key_size)
        value, position = _taken(out, position, size)
        assert out[position : position + 1] == b"\n"
        position += 1
        found.setdefault(partition, []).append(Record(key, value, (), stamp, offset))
    return found


def _taken(out: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, position
    return out[position : position + size], position + size


def kcat_reads(bootstrap: str, topic: str, partitions: Sequence[Sequence[Record]]) -> None:
    """Asserts that the partitions hold these. Nothing where there is no kcat."""
    if find_kcat() is None:
        return
    expected = {
        number: [
            Record(each.key, each.value, (), each.timestamp_ms, at)
            for at, each in enumerate(records)
        ]
        for number, records in enumerate(partitions)
        if records
    }
    assert kcat_consumed(bootstrap, topic) == expected
