"""One line for each command in `moldau help`, which so imports none of their modules."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "broker": "Run a broker: `moldau broker start` needs no settings.",
    "cert": "Make an authority, and sign certificates for nodes and clients with it.",
    "init": "Make a secured node: certificates, an admin, settings and data in one directory.",
    "log": "Look into a log's files offline: segments, indexes, snapshots, checkpoints.",
    "security": "Check the settings of a node for what is open.",
    "storage": "Format a node's directories for a cluster, or tell what they are.",
    "tier": "Remote storage of topics: status, copy-now, verify.",
}
