"""Finds the installed plugins when it is imported, so that forked task processes inherit them.

This reads the metadata of all packages, which would cost every task a tenth of a second of CPU.
"""

from __future__ import annotations

from moldau.connect.installed.plugins import catalogue

catalogue()
