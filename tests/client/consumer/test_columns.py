"""What a poll gives, as columns and as Arrow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.errors import ConfigError
from tests.client.consumer.polled_rows import polled


def test_columns_are_parallel() -> None:
    part = polled()
    assert part.offsets() == [0, 1, 2]
    assert part.timestamps() == [1_000, 2_000, -1]
    assert part.keys() == [b"k", None, b""]
    assert part.values() == [b"one", b"two", None]


def test_columns_have_what_deserializers_made() -> None:
    part = polled(value_deserializer="string")
    assert part.values() == ["one", "two", None]
    assert part.keys() == [b"k", None, b""]


def test_arrow_has_all_of_it() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = polled().to_arrow()
    assert isinstance(batch, pyarrow.RecordBatch)
    assert batch.column("topic").to_pylist() == ["t"] * 3
    assert batch.column("partition").to_pylist() == [1] * 3
    assert batch.column("offset").to_pylist() == [0, 1, 2]
    assert batch.column("timestamp").cast(pyarrow.int64()).to_pylist() == [1_000, 2_000, None]
    assert batch.column("key").to_pylist() == [b"k", None, b""]
    assert batch.column("value").to_pylist() == [b"one", b"two", None]
    assert batch.column("headers").to_pylist() == [[("h", b"1"), ("h", None)], [], []]
    assert batch.schema.field("value").type == pyarrow.binary()
    text = polled(value_deserializer="string").to_arrow()
    assert text.column("value").to_pylist() == ["one", "two", None]
    assert pyarrow.Table.from_batches([batch, batch]).num_rows == 6


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    part = polled()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'moldau\[arrow\]'"):
        part.to_arrow()


def test_nobody_imports_pyarrow_who_does_not_ask_for_it() -> None:
    code = "import sys, moldau.client.consumer.consumer; assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
