"""One line for each command in `moldau help`, which so imports none of their modules."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "connect": "Run Kafka Connect workers, and manage their connectors.",
    "dev": "Run a broker, Connect, a registry, the console and this folder's project together.",
}
