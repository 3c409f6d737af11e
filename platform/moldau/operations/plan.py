"""The steps of a plan, and their text: `moldau pipeline plan` and `moldau apply` look the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError


class Action(Enum):
    """What a step does."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    START = "start"
    REMOVE = "remove"
    """The thing is no longer in the file."""
    REFUSE = "refuse"
    """The step is not possible. Its note says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One changed value. `before` is None for a new value, `after` for a removed one."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """The step for one thing, such as a topic or a connector."""

    action: Action
    kind: str
    name: str
    changes: tuple[Change, ...] = ()
    note: str = ""
    error: KafkaError | None = None
    """Why the cluster refuses the step."""

    @property
    def remark(self) -> str:
        """The note and the reason of the refusal, as text."""
        parts = (self.note, "" if self.error is None else self.error.reason)
        return ": ".join(each for each in parts if each)


_SIGNS: Final = {
    Action.CREATE: "+",
    Action.UPDATE: "~",
    Action.KEEP: " ",
    Action.START: ">",
    Action.REMOVE: "-",
    Action.REFUSE: "!",
}
_COUNTED: Final = (Action.CREATE, Action.UPDATE, Action.KEEP, Action.REMOVE, Action.START)


def count_of(steps: Iterable[PlanStep], action: Action) -> int:
    """Return how many steps have the action."""
    return sum(each.action is action for each in steps)


def plan_lines(steps: Sequence[PlanStep], kind_width: int) -> Iterator[str]:
    """Yield a line for each step, its changes below it, and a summary."""
    for step in steps:
        note = f"  ({step.remark})" if step.remark else ""
        words = f"{step.action.value:6} {step.kind:{kind_width}} {step.name}"
        yield f"{_SIGNS[step.action]} {words}{note}"
        yield from (f"      {_change(each)}" for each in step.changes)
    parts = [f"{n} to {each.value}" for each in _COUNTED if (n := count_of(steps, each))]
    yield ""
    yield ", ".join(parts) or "nothing to do"
    refused = count_of(steps, Action.REFUSE)
    if refused:
        yield f"{refused} cannot be done"


def plan_json(steps: Sequence[PlanStep]) -> dict[str, Any]:
    """Return the steps, and the count of each action, as data for JSON."""
    return {
        "steps": [
            {
                "action": each.action.value,
                "kind": each.kind,
                "name": each.name,
                "changes": [
                    {"what": change.what, "before": change.before, "after": change.after}
                    for change in each.changes
                ],
                "note": each.remark,
            }
            for each in steps
        ],
        "counts": {action.value: count_of(steps, action) for action in Action},
    }


def _change(change: Change) -> str:
    if change.before is None:
        return f"{change.what} = {change.after}"
    if change.after is None:
        return f"{change.what}: {change.before} -> (removed)"
    return f"{change.what}: {change.before} -> {change.after}"
