"""The failure of a connector's task, as a worker shows it."""

from __future__ import annotations

import json

from tests.connect.processes import Worker, wait_until

SECRET = "hush-hush"  # noqa: S105 - what no answer may hold

JSON = "org.apache.kafka.connect.json.JsonConverter"


def cause(worker: Worker, name: str) -> str:
    """The first line of the task's failure; nothing while it has not failed."""
    status, body = worker.ask("GET", f"/connectors/{name}/tasks/0/status")
    if status != 200 or body["state"] != "FAILED":
        return ""
    return str(body["trace"]).split("\n", 1)[0]


def failure(worker: Worker, name: str) -> str:
    """The first line of the task's failure, as soon as it fails. In one look: the task begins again
    by itself, and shows it no more then."""
    found: list[str] = []

    def has_failed() -> bool:
        found.append(cause(worker, name))
        return found[-1] != ""

    wait_until(has_failed, f"{name} fails")
    return found[-1]


def expect(worker: Worker, name: str, *parts: str) -> None:
    """The task fails, and its first line has these parts and a hint."""
    line = failure(worker, name)
    assert all(part in line for part in (*parts, " -> ")), line
    assert SECRET not in json.dumps(worker.ask("GET", f"/connectors/{name}/status"))
