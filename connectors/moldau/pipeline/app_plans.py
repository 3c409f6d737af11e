"""Get the plans of Streams apps from `moldau streams explain --json`.

Each app is imported in a process of its own. So an app that crashes, prints or hangs when it is
imported cannot harm the command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.pipeline.pipeline import App, AppPlan, Step
from moldau.pipeline.references import has_reference

TIMEOUT_S: Final = 60.0


def explain_apps(
    apps: Sequence[App],
    counts: Mapping[str, int],
    directory: str,
    connection: Sequence[str] = (),
) -> list[AppPlan | str]:
    """Return for each app its plan, or a text that says why it has none.

    `counts` are the numbers of partitions of topics, by name. `connection` are the options of a
    cluster on which the keys of the inputs are looked at."""
    from moldau.runtime.node_processes import outputs_of

    partitions = [
        word for topic, count in counts.items() for word in ("--partitions", f"{topic}={count}")
    ]
    commands = [
        ["streams", "explain", app.target, "--engine", app.engine, "--json", *partitions]
        + [*_set_words(app.settings), *connection]
        for app in apps
    ]
    return [
        parse_plan(code, out, err) for code, out, err in outputs_of(commands, directory, TIMEOUT_S)
    ]


def _set_words(settings: Mapping[str, str]) -> list[str]:
    return [
        word
        for name, text in settings.items()
        if not has_reference(text)  # its value is known when the app starts
        for word in ("--set", f"{name}={text}")
    ]


def parse_plan(code: int | None, out: str, err: str) -> AppPlan | str:
    """Parse the output of `moldau streams explain`. `code` None means that it did not end."""
    if code is None:
        return f"its import did not end in {TIMEOUT_S:.0f} s"
    try:
        # The app's own output may come before the JSON.
        found = json.loads(out[out.find("{\n") :]) if code == 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return _error_line(err) or f"its module ends the process when it is imported (code {code})"
    return _plan(found)


def _error_line(err: str) -> str:
    """Return the last error line for the user, without its prefixes, or an empty text."""
    lines = [line.strip() for line in err.splitlines() if line.startswith("moldau: ")]
    if not lines:
        return ""
    text = lines[-1].removeprefix("moldau: ").removeprefix("internal error: ")
    if "has no command streams" in text or "no command streams" in text:
        return "moldau-streams is not installed: install it as you installed moldau"
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
                Step(step["name"], step["kind"], tuple(step["parents"]), step["text"], step["code"])
                for step in program["steps"]
            )
            for program in found["programs"]
        ),
        problem=found["problem"],
        types_read=found["types"]["reads"],
        types_written=found["types"]["writes"],
        wrong_settings={each["name"]: each["text"] for each in found["settings"]},
        misplaced=tuple(found["misplaced"]),
    )
