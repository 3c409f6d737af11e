"""The kinds of members: their protocols and assignors."""

from __future__ import annotations

KINDS = [
    ("classic", "range"),
    ("classic", "sticky"),
    ("classic", "cooperative-sticky"),
    ("consumer", ""),
]
