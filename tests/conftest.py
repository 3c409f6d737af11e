"""What holds for all tests.

Properties have no deadline: how long an example takes is the machine's business, and a collection
of garbage in its midst is nobody's fault.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("without-deadline", settings(), deadline=None)
settings.load_profile("without-deadline")
