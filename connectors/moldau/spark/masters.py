"""The forms of the addresses of Spark's masters and Spark Connect servers. No IO.

Spark finds a wrong form only after Java has started, between the frames of a Java stack trace.
"""

from __future__ import annotations

import re
from typing import Final

_COUNT: Final = r"[1-9]\d*"
_HOST: Final = r"(?:\[[0-9a-fA-F:.]+\]|[^\s/,:;\[\]]+)"
_MASTERS: Final = (
    re.compile(rf"local(?:\[(?:{_COUNT}|\*)(?:\s*,\s*{_COUNT})?\])?"),
    re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"),
    re.compile(rf"spark://{_HOST}:\d{{1,5}}(?:,{_HOST}:\d{{1,5}})*"),
    re.compile(r"k8s://\S+"),
    re.compile(r"yarn"),
)
_REMOTE: Final = re.compile(rf"sc://{_HOST}(?::\d{{1,5}})?(?:/(?:;[^;=\s]+=[^;\s]*)*;?)?")


def is_master(text: str) -> bool:
    """Whether this is a master that Spark knows."""
    return any(each.fullmatch(text.strip()) for each in _MASTERS)


def is_remote(text: str) -> bool:
    """Whether this is the address of a Spark Connect server."""
    return _REMOTE.fullmatch(text.strip()) is not None
