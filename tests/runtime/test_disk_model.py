"""The simulated disk against a model of its promises, under any order of calls."""

from __future__ import annotations

from hypothesis import settings

from tests.runtime.disk_model import DiskModel

TestDiskModel = DiskModel.TestCase
TestDiskModel.settings = settings(max_examples=250, stateful_step_count=30)
