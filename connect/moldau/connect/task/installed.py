"""Looks up the installed plugins when it is imported, so that the forks of a process have them.

The metadata of all packages are read for that, which costs every task a tenth of a second of CPU.
"""

from __future__ import annotations

from moldau.connect.worker.plugins import catalogue

catalogue()
