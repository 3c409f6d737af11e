"""One line for each command in `moldau help`, which so imports none of their modules."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {"streams": "Streams apps: run, pause, status, explain, draw, state."}
