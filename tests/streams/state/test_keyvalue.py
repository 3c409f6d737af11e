"""The rows of a table, by the bytes of their keys."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from moldau.streams.serdes.codec import Codec
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.spec import StoreKind, StoreSpec

BYTES = Codec("bytes", bytes, bytes)
keys = st.lists(st.sampled_from([b"\0", b"a", b"\xfe", b"\xff"]), max_size=4).map(b"".join)


@given(st.sets(keys), st.sets(keys), keys)
@example({b"a" + b"\xff" * 65}, {b"a" + b"\xff" * 66}, b"a")
@example({b"\xff" * 65, b"\xfe"}, {b"\xff" * 66}, b"\xff")
def test_a_prefix_finds_all_keys_that_begin_with_it(
    flushed: set[bytes], fresh: set[bytes], prefix: bytes
) -> None:
    store = KeyValueStore(StoreSpec("s", StoreKind.KEY_VALUE, BYTES, BYTES), MemoryBacking())
    for key in flushed:
        store.put(key, b"old", 1)
    store.flush()
    for key in fresh:
        store.put(key, b"new", 2)

    found = [key for key, _ in store.with_prefix(prefix)]

    assert found == sorted(key for key in flushed | fresh if key.startswith(prefix))
