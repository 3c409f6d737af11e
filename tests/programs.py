"""Programs that a test runs in processes of their own."""

from __future__ import annotations

import sys
from typing import Final

FORKING: Final = (sys.executable, "-W", "ignore:This process:DeprecationWarning")
"""The beginning of a command for a program that forks while it has threads, which is what its
test is about: from Python 3.12 on that is warned of."""
