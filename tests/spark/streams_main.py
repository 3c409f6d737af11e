"""The app of a driver that a test kills; APP names its topics."""

from __future__ import annotations

import os

from tests.spark.streams_apps import both

app = both(os.environ["APP"])
