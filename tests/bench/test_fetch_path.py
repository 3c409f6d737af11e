"""What a fetch costs, in counts that no other work on the machine changes."""

from __future__ import annotations

import asyncio
import sys

import pytest

pytest.importorskip("confluent_kafka", reason="the bench's loads need it: make peers")

from bench.fetch_path import bytecodes

LIMITS = {"uncommitted": (2_900, 80), "empty": (2_550, 70)}
"""Bytecodes of CPython 3.11, and calls of Python functions."""


@pytest.mark.parametrize("load", LIMITS)
def test_a_fetch_that_is_answered_at_once_costs_no_more_than_it_did(load: str) -> None:
    ran, called = asyncio.run(bytecodes(load))
    ran_max, called_max = LIMITS[load]
    assert called <= called_max
    if sys.version_info[:2] == (3, 11):
        assert ran <= ran_max
