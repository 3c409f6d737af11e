"""The app of a driver that a test kills; APP names its topics."""

from __future__ import annotations

import os

from tests.spark.streams_apps import windowed_join

app = windowed_join(os.environ["APP"])
