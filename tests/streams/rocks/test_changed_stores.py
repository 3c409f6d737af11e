"""A store that an app declares otherwise than before is refused: its rows mean something else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moldau.runtime.real_files import RealFiles
from moldau.streams import Streams, count_window, hopping, session, sliding, tumbling
from moldau.streams.rocks import ChangelogPosition, RocksMemory, StoreFailed, TaskDatabase
from moldau.streams.windows import Windows
from moldau.streams.worker.tasks import store_kinds

MEMORY = RocksMemory(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)


def stores(windows: Windows | None, what: str = "count", key: Any = str) -> dict[str, str]:
    app = Streams("app")
    grouped = app.stream("in", str, key=key).group_by_key()
    if windows is not None:
        grouped = grouped.window(windows)
    getattr(grouped, what)(name="s").changes().to("out")
    return store_kinds(store for program in app.plan().programs for store in program.stores)


def use(path: Path, kinds: Mapping[str, str]) -> None:
    """As a worker: opens the state, commits a row and stops."""
    database = TaskDatabase.open(str(path), kinds, MEMORY, RealFiles())
    database.backing("s").write([(b"key", b"1")])
    database.commit({"s": ChangelogPosition(1)})
    database.close()


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (stores(tumbling("1m")), stores(tumbling("5m")), "1m every 1m .* wants windows: 5m"),
        (stores(hopping("1m", advance="10s")), stores(tumbling("1m")), "every 10s .* every 1m"),
        (stores(tumbling("1m")), stores(sliding("1m")), "every 1m .* sliding 1m"),
        (stores(session("1m")), stores(session("2m")), "gap of 1m .* gap of 2m"),
        (stores(count_window(2)), stores(count_window(3)), "2 records .* 3 records"),
        (stores(None), stores(None, key=int), "keys: str .* wants keys: int"),
    ],
)
def test_other_windows_or_keys_are_refused(
    tmp_path: Path, first: dict[str, str], then: dict[str, str], said: str
) -> None:
    use(tmp_path, first)
    with pytest.raises(StoreFailed, match=f"the store s holds .*{said}.*: give the store another"):
        use(tmp_path, then)
    use(tmp_path, first)


class Order(msgspec.Struct, frozen=True):
    id: int


def test_types_of_values_may_grow_and_models_be_renamed(tmp_path: Path) -> None:
    for what, key in (("count", str), ("collect", str), ("count", Order), ("count", str | None)):
        use(tmp_path, stores(None, what, key))


def test_another_grace_is_none(tmp_path: Path) -> None:
    use(tmp_path, stores(tumbling("1m")))
    use(tmp_path, stores(tumbling("1m", grace="1h")))


def test_what_an_earlier_version_left_is_taken_over(tmp_path: Path) -> None:
    kinds = stores(tumbling("1m"))
    use(tmp_path, {name: note.partition("\n")[0] for name, note in kinds.items()})
    use(tmp_path, kinds)
    with pytest.raises(StoreFailed, match="1m every 1m"):
        use(tmp_path, stores(tumbling("5m")))


def test_a_store_without_rows_may_change(tmp_path: Path) -> None:
    for windows in (tumbling("1m"), tumbling("5m")):
        TaskDatabase.open(str(tmp_path), stores(windows), MEMORY, RealFiles()).close()
    use(tmp_path, stores(tumbling("5m")))
    with pytest.raises(StoreFailed, match="5m every 5m"):
        use(tmp_path, stores(tumbling("1m")))


def test_a_table_of_a_topic_may_be_declared_anew(tmp_path: Path) -> None:
    for kind in (str, int):
        app = Streams("app")
        app.table("s", kind, key=str).changes().to("out")
        (program,) = app.plan().programs
        use(tmp_path, store_kinds(program.stores))
