"""What a connector promises about its records, as `status` and `plan` show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.connect.worker.plugins import connector_class
from moldau.errors import MoldauError

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"


def guarantee_of(config: Mapping[str, str]) -> str:
    """A connector class with a method `guarantee(props)` says it itself."""
    try:
        kind = connector_class(config)
    except MoldauError:
        return "unknown"
    asked = getattr(kind, "guarantee", None)
    if callable(asked):
        try:
            return str(asked(dict(config)))
        except (MoldauError, LookupError, ValueError):
            return "unknown"  # the config is wrong, or a reference stands for what decides
    if config.get("exactly.once", "").strip().lower() == "true":
        return EXACTLY_ONCE
    if config.get("errors.tolerance") == "all" and not config.get(
        "errors.deadletterqueue.topic.name"
    ):
        return f"{AT_LEAST_ONCE}, bad records are dropped"
    return AT_LEAST_ONCE
