"""Structured logs: an event in words, facts as fields, one line each, as text or JSON.

Invariants: time comes from the given clock; a secret is never printed; no value can break a line in
two; a user's mistake is logged without a traceback.
"""

from __future__ import annotations

from moldau.logging.level import ROOT, Level, parse_level, parse_levels
from moldau.logging.loggers import Logger, Loggers, WallClock

__all__ = [
    "ROOT",
    "Level",
    "Logger",
    "Loggers",
    "WallClock",
    "parse_level",
    "parse_levels",
]
