"""The line of `moldau pipeline` in `moldau help`, which so does not import the command."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "pipeline": "Topics, sources, Streams apps and sinks in one file: lint, plan, draw, run."
}
