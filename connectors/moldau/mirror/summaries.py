"""The line of `moldau mirror` in `moldau help`, which so does not import the command."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "mirror": "Copy topics, their settings and groups' offsets from one cluster to another."
}
