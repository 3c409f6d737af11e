"""The delivery guarantee of a connector, as `status` and `plan` show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.connect.worker.plugins import connector_class
from moldau.errors import MoldauError

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"


def guarantee_of(config: Mapping[str, str]) -> str:
    """Return the guarantee of a connector. Its class may define it by `guarantee(props)`."""
    try:
        kind = connector_class(config)
    except MoldauError:
        return "unknown"
    asked = getattr(kind, "guarantee", None)
    if callable(asked):
        try:
            return str(asked(dict(config)))
        except (MoldauError, LookupError, ValueError):
            return "unknown"  # the config is wrong, or the deciding value is a reference
    if config.get("exactly.once", "").strip().lower() == "true":
        return EXACTLY_ONCE
    if config.get("errors.tolerance") == "all" and not config.get(
        "errors.deadletterqueue.topic.name"
    ):
        return f"{AT_LEAST_ONCE}, bad records are dropped"
    return AT_LEAST_ONCE
