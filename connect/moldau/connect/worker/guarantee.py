"""The delivery guarantee of a connector, as `status` and `plan` show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.connect.api import ExactlyOnceSupport, SourceConnector
from moldau.connect.config.exactly_once import is_exactly_once
from moldau.connect.installed.plugins import connector_class
from moldau.errors import MoldauError

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
_DROPPED: Final = ", bad records are dropped"


_IN_TRANSACTION: Final = f"{EXACTLY_ONCE}: offsets are in the transactions of the records"


def guarantee_of(config: Mapping[str, str], worker: Mapping[str, str] | None = None) -> str:
    """Return the guarantee of a connector on a worker with these settings, by default Kafka's. Its
    class may define it by `guarantee(props)`."""
    try:
        kind = connector_class(config)
    except MoldauError:
        return "unknown"
    if is_exactly_once(worker or {}) and supports_exactly_once(kind, config):
        return _IN_TRANSACTION + (_DROPPED if _drops(config) else "")
    asked = getattr(kind, "guarantee", None)
    if callable(asked):
        try:
            return str(asked(dict(config)))
        except (MoldauError, LookupError, ValueError):
            return "unknown"  # the config is wrong, or the deciding value is a reference
    if config.get("exactly.once", "").strip().lower() == "true":
        return EXACTLY_ONCE
    return AT_LEAST_ONCE + (_DROPPED if _drops(config) else "")


def _drops(config: Mapping[str, str]) -> bool:
    is_kept = config.get("errors.deadletterqueue.topic.name")
    return config.get("errors.tolerance") == "all" and not is_kept


def supports_exactly_once(kind: type, config: Mapping[str, str]) -> bool:
    """Whether a connector of this class says that it supports exactly-once with this config."""
    if not issubclass(kind, SourceConnector):
        return False
    try:
        return kind().exactly_once_support(dict(config)) is ExactlyOnceSupport.SUPPORTED
    except (MoldauError, LookupError, ValueError):
        return False
