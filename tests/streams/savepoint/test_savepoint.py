"""What makes files a savepoint, and the apps that it is for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.streams import Streams, session, tumbling
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import StateError, StreamsError
from moldau.streams.savepoint.savepoint import (
    MANIFEST,
    SavedOffset,
    Savepoint,
    load,
    require_same,
    save,
)
from moldau.streams.savepoint.taking import _remove_members
from tests.streams.savepoint.places import FakePlace


def counted(*, key: type = str, name: str = "counts", windows: Any = None) -> Plan:
    app = Streams("saved")
    grouped: Any = app.stream("lines", str, key=key).group_by_key()
    (grouped if windows is None else grouped.window(windows)).count(name=name)
    return app.plan()


def test_a_savepoint_is_read_as_it_was_written() -> None:
    place, offsets = FakePlace(), {("lines", 0): SavedOffset(3, "text")}
    found = Savepoint(
        "saved", 7, kept_topology(counted()), {"lines": 1}, offsets, {(0, 0): ("text",)}, {}, ()
    )
    save(place, found)
    assert load(place) == found


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[]", b"null", b'{"form": 1, "topology": {"form": 1}}'], ids=repr
)
def test_a_damaged_savepoint_is_told_in_a_line(data: bytes) -> None:
    place = FakePlace()
    place.write(MANIFEST, data)
    with pytest.raises(StreamsError, match=r"savepoint=here: its savepoint\.json is damaged"):
        load(place)


def test_a_savepoint_of_a_newer_form_is_told() -> None:
    place = FakePlace()
    place.write(MANIFEST, b'{"form": 2}')
    with pytest.raises(StreamsError, match="a newer moldau has taken it"):
        load(place)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (counted(), counted(key=int), "its keys were str and are int now"),
        (counted(), counted(windows=tumbling("1m")), "its kind were key-value and are window now"),
        (counted(windows=tumbling("1m")), counted(windows=tumbling("2m")), "its windows were"),
        (counted(windows=tumbling("1m")), counted(windows=session("1m")), "its kind were window"),
        (counted(), counted(name="totals"), "the app has no store counts any more"),
    ],
    ids=["key", "kind", "windows", "sessions", "name"],
)
def test_rows_that_an_app_would_misread_are_refused(before: Plan, now: Plan, said: str) -> None:
    require_same("savepoint=here", kept_topology(before), before)
    with pytest.raises(StateError, match=said) as found:
        require_same("savepoint=here", kept_topology(before), now)
    assert "--accept-changes" not in str(found.value), "neither command has that option"


def test_members_of_a_streams_group_are_not_removed() -> None:
    admin: Any = SimpleNamespace(describe_group=lambda group: SimpleNamespace(type="streams"))
    with pytest.raises(StreamsError, match="wait, and take the savepoint without --force"):
        _remove_members(admin, "saved")
