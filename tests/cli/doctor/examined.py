"""`moldau doctor` in the test's process, with a layer that may add a finding."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.cli.doctor.finding import GROUP, Finding, problem
from moldau.plugins import Plugins
from tests.cli.shell import Done
from tests.plugins.entry_points import point

POINTS = [
    point("commands", "doctor", "moldau.cli.commands.doctor:command", "moldau-platform"),
    point(GROUP.removeprefix("moldau."), "mine", f"{__name__}:examine"),
]


def examine(environment: Mapping[str, str]) -> list[Finding]:
    return [problem("mine", "found", "why", "cure")] if "TROUBLE" in environment else []


def run_doctor(
    *words: str, environment: Mapping[str, str] | None = None, out: io.StringIO | None = None
) -> Done:
    out, err, environment = out or io.StringIO(), io.StringIO(), environment or {}
    code = run(["doctor", *words], Context(out, err, environment, lambda: Plugins(POINTS)))
    return Done(code, out.getvalue(), err.getvalue())


def doctor(*words: str, **environment: str) -> tuple[int, list[dict[str, str]]]:
    answer = run_doctor("--json", *words, environment=environment)
    assert not answer.err
    return answer.code, json.loads(answer.out)
