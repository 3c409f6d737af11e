"""Values of every type are read in time that grows with their length, whatever they are."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config import LIST, Kind
from tests.fuzz.settings import KINDS

LENGTH = 300_000


@pytest.mark.parametrize(
    "text",
    [
        "1" * LENGTH + "x",
        "1" * LENGTH + ".",
        "." + "1" * LENGTH + "x",
        "1e" + "1" * LENGTH + "x",
        "a" + " " * LENGTH + "b",
        "a" + ", " * LENGTH + "b",
        " ," * LENGTH,
        "+" * LENGTH,
        "true" + " " * LENGTH + "x",
    ],
    ids=["digits", "point", "fraction", "exponent", "blanks", "items", "commas", "signs", "words"],
)
@pytest.mark.parametrize("kind", KINDS, ids=[each.name for each in KINDS])
def test_a_long_value_is_read_or_refused_in_linear_time(kind: Kind[Any], text: str) -> None:
    begun = time.process_time()
    with suppress(ValueError):
        kind.read(text)
    assert time.process_time() - begun < 2  # the square of it would take a minute and more


@given(st.text(alphabet="a ,\t\n", max_size=30))
def test_lists_are_split_where_the_plain_pattern_splits_them(text: str) -> None:
    wanted = tuple(dict.fromkeys(re.split(r"\s*,\s*", text))) if text else ()
    assert LIST.read(text) == wanted
