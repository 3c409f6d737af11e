"""Check the forms of `spark.master` and `spark.remote`. No IO.

Spark finds a wrong form only after Java has started, between the frames of a Java stack trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from moldau.connect.api import Problem

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


def check_master(name: str, text: str) -> Iterable[Problem]:
    """Report a master that Spark does not know. `name` is the setting."""
    if not any(each.fullmatch(text.strip()) for each in _MASTERS):
        yield Problem(
            name,
            "this is no Spark master: use local[2], local[*], spark://host:7077, k8s://... or "
            f"yarn, not {text!r}",
        )


def check_remote(name: str, text: str) -> Iterable[Problem]:
    """Report an address that is none of a Spark Connect server. `name` is the setting."""
    if not _REMOTE.fullmatch(text.strip()):
        # The text after the first `;` may be a token: leave it out.
        shown = text.partition(";")[0]
        yield Problem(
            name,
            f"this is no address of a Spark Connect server: use sc://host:15002, not {shown!r}",
        )
