"""The kept topology: what replaces it, what is refused, and which earlier ones may come back."""

from __future__ import annotations

import pytest

from moldau.streams.plan.topology import Topology, to_keep
from moldau.streams.problems import TopologyChanged


def stores(*names: str) -> Topology:
    return Topology(("lines",), names, ())


def kept_after(before: Topology | None, now: Topology, *, accepts: bool = False) -> Topology | None:
    """Return what is kept, as it is read back."""
    found = to_keep("app", before, now, accepts_changes=accepts)
    return None if found is None else Topology.decoded(found.encoded())


def test_a_worker_from_before_additions_may_start_and_writes_nothing() -> None:
    one, two, three = stores("a"), stores("a", "b"), stores("a", "b", "c")
    kept = kept_after(kept_after(kept_after(None, one), two), three)
    assert kept == three
    assert kept.former == (two, one)
    for topology in (one, two, three):
        assert kept_after(kept, topology) is None
    with pytest.raises(TopologyChanged, match="gone: store b, store c"):
        kept_after(kept, stores("a", "other"))


def test_an_accepted_change_forgets_the_former_ones() -> None:
    kept = kept_after(kept_after(None, stores("a")), stores("a", "b"))
    kept = kept_after(kept, stores("c"), accepts=True)
    assert kept == stores("c")
    assert kept.former == ()
    with pytest.raises(TopologyChanged):
        kept_after(kept, stores("a"))


def test_the_newest_ten_former_ones_are_kept() -> None:
    names = [chr(ord("a") + count) for count in range(15)]
    kept = None
    for count in range(1, 16):
        kept = kept_after(kept, stores(*names[:count]))
    assert kept is not None
    assert [len(each.stores) for each in kept.former] == [*range(14, 4, -1)]


def test_a_record_without_former_ones_is_read() -> None:
    data = b'{"form": 1, "inputs": ["lines"], "stores": ["a"], "repartitions": []}'
    assert Topology.decoded(data) == stores("a")
