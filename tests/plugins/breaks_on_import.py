"""A plugin module whose import fails, as a missing dependency makes it."""

from __future__ import annotations

raise RuntimeError("no licence found")
