"""How much memory a broker's process has."""

from __future__ import annotations

import os
from pathlib import Path

from tests.broker.main.processes import BrokerProcess


def resident_bytes(process: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
