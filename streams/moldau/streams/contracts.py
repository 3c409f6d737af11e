"""The contract of the plugin group of Streams: what starts Spark sessions."""

from __future__ import annotations

from typing import Final

from moldau.plugins.contracts import Contract, check_arguments

SPARK_SESSIONS: Final = "moldau.spark_sessions"


def _starts_session(loaded: object) -> None:
    check_arguments(loaded, "")


CONTRACTS: Final = (Contract(SPARK_SESSIONS, "what starts Spark sessions", _starts_session),)
