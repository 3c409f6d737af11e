"""A module that starts a thread when it is imported, as some libraries do."""

from __future__ import annotations

import threading

WAITS = threading.Event()
threading.Thread(target=WAITS.wait, daemon=True).start()
