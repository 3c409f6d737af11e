"""The delivery guarantee of a connector, in one line for `status` and `plan`."""

from __future__ import annotations

from collections.abc import Mapping

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"


def promised(kind: str, why: str, props: Mapping[str, str]) -> str:
    """Return the guarantee and its reason, and how `errors.tolerance` weakens it."""
    line = f"{kind}: {why}"
    drops = props.get("errors.tolerance") == "all"
    if drops and not props.get("errors.deadletterqueue.topic.name"):
        return f"{line}; bad records are dropped"
    return line
