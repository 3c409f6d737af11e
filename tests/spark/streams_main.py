"""The app of a driver that a test kills; APP names its topics, GATE where it waits."""

from __future__ import annotations

import os

from tests.spark.streams_apps import both

app = both(os.environ["APP"], os.environ["GATE"])
