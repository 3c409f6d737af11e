"""What the programs in Python share: the loop over jobs, and records in and out of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.conformance.records import Record, record_from_json, stored_to_json, to_line

Job = Mapping[str, Any]


def records_of(job: Job) -> list[Record]:
    return [record_from_json(each) for each in job["records"]]


def told(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [stored_to_json(each) for each in records]


def serve(jobs: Mapping[str, Callable[[Job], Any]]) -> None:
    """Answers until the input ends. Whatever a client raises is an answer too."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a library prints must not be taken for an answer
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = {"ok": jobs[job["do"]](job)}
        except Exception as failed:
            answer = {"error": f"{type(failed).__name__}: {failed}"}
        answers.write(to_line(answer))
        answers.flush()
