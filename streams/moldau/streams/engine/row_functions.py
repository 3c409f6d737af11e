"""Users' functions over the rows of tables.

A row for which the function of a step fails is not in the table of the step, if the policy of the
step does not end the app: later steps see it deleted, look-ups do not find it, and as the old row
of the next update it is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from moldau.streams.plan.policies import Policy
from moldau.streams.problems import StreamsError

RowCheck = Callable[[Exception], bool]
"""row_check(error): whether the row is left out; its policy is carried out then."""

UpdateCheck = Callable[[Exception, int], bool]
"""update_check(error, mark): whether the update of a row is left out. What was done since `mark` in
the undo log is undone then, and the policy carried out."""


class RowFunctions(NamedTuple):
    """A function over rows, for each way in which a row comes."""

    of_new: Callable[..., Any]
    of_old: Callable[..., Any]
    """For the old row of an update."""
    looked_up: Callable[..., Any]
    """For a row that is looked up."""


def leaving_out(call: Callable[..., Any], check: RowCheck | None, missing: Any) -> Any:
    """Return a function with the results of `call`, and `missing` for a row that is left out."""
    if check is None:
        return call

    def found(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            if not check(error):
                raise
            return missing

    return found


def looked_up(call: Callable[..., Any], policy: Policy, missing: Any) -> Any:
    """Return a function with the results of `call`, and `missing` if it fails as often as the
    policy tries it, and the app goes on then."""
    if not policy.goes_on:
        return call

    def found(*arguments: Any) -> Any:
        for attempt in range(policy.retries + 1):
            try:
                return call(*arguments)
            except StreamsError:
                raise
            except Exception:
                if policy.then == "fail" and attempt == policy.retries:
                    raise
        return missing

    return found
