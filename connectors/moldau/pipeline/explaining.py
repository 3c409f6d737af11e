"""Plans of apps, from `moldau streams explain --json`: apps are imported in processes of their own,
so an app that crashes, prints or hangs at import cannot harm the command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.pipeline.pipeline import AppPlan, Step

TIMEOUT_S: Final = 60.0


def explain(
    targets: Sequence[str], counts: Mapping[str, int], directory: str
) -> list[AppPlan | str]:
    """A plan for each app, or why there is none."""
    from moldau.runtime.node_processes import outputs_of

    partitions = [
        word for topic, count in counts.items() for word in ("--partitions", f"{topic}={count}")
    ]
    commands = [["streams", "explain", target, "--json", *partitions] for target in targets]
    return [
        plan_in(code, out, err) for code, out, err in outputs_of(commands, directory, TIMEOUT_S)
    ]


def plan_in(code: int | None, out: str, err: str) -> AppPlan | str:
    """What the command answered."""
    if code is None:
        return f"its import did not end in {TIMEOUT_S:.0f} s"
    try:
        # What the app itself prints stands before.
        found = json.loads(out[out.find("{\n") :]) if code == 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return _reason(err) or f"`moldau streams explain` ended with code {code}"
    return _plan(found)


def _reason(err: str) -> str:
    """The line for the user, without the names of the command and of error classes for bugs."""
    lines = [line.strip() for line in err.splitlines() if line.startswith("moldau: ")]
    if not lines:
        return ""
    text = lines[-1].removeprefix("moldau: ").removeprefix("internal error: ")
    if "has no command streams" in text or "no command streams" in text:
        return "moldau-streams is not installed"
    return text.removesuffix("; moldau --debug shows where")


def _plan(found: Mapping[str, Any]) -> AppPlan:
    return AppPlan(
        app=found["app"],
        reads=tuple(found["reads"]),
        writes=tuple(found["writes"]),
        makes=tuple(found["makes"]),
        chooses_topics=found["chooses_topics"],
        programs=tuple(
            tuple(
                Step(step["name"], step["kind"], tuple(step["parents"]), step["text"])
                for step in program["steps"]
            )
            for program in found["programs"]
        ),
        problem=found["problem"],
    )
