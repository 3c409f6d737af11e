"""The line of `moldau spark` in `moldau help`, which so does not import the command."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {"spark": "Run a PySpark job that reads and writes topics: run, submit, warm."}
