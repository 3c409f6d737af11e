"""Large batches over a real Spark Connect server: Spark runs `foreachBatch` in a Python worker of
the server, and the tasks' rows lie in the spool until that worker has written them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from moldau.connectors.spark.spool import _INLINE_BYTES
from moldau.spark.session import shared_server
from moldau.testing import SyncEmbeddedBroker
from tests.connectors.spark.runners import SMALL, need_spark, orders_lake, running
from tests.databases.servers import postgresql_address
from tests.peers.eventually import eventually
from tests.spark.topics import make_topic, send

pytestmark = pytest.mark.real

ROWS: Final = 900
BATCH: Final = 300
NOTE: Final = "large " * 2000
assert len(NOTE) * BATCH // 2 > _INLINE_BYTES, "the rows of a task must not come back themselves"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server, which is stopped at the end."""
    need_spark()
    for part in ("grpc", "grpc_status", "pandas"):
        pytest.importorskip(part, reason=f"Spark Connect needs {part}")
    place = tmp_path_factory.mktemp("server") / "discovery.json"
    place.parent.chmod(0o700)
    prefix = "spark.conf."
    conf = {f"spark.{name.removeprefix(prefix)}": text
            for name, text in SMALL.items() if name.startswith(prefix)}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_CONNECT_DISCOVERY", str(place))
        try:
            yield shared_server("local[2]", {"spark.driver.memory": "1g", **conf})
        finally:
            import_module("pyspark.sql.connect.local_server").stop_local_connect_server()


def large_orders(count: int, start: int) -> list[bytes]:
    return [json.dumps({"id": each, "note": NOTE}).encode() for each in range(start, start + count)]


def rows_of(kind: str, folder: Path, database: str) -> list[tuple[int, str]]:
    """What the sink holds, sorted."""
    if kind == "delta":
        table = import_module("deltalake").DeltaTable(str(folder / "orders")).to_pyarrow_table()
        found = zip(table["id"].to_pylist(), table["note"].to_pylist(), strict=True)
        return sorted(found)
    engine = sa.create_engine(database, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT id, note FROM orders ORDER BY id")
        return [(row.id, row.note) for row in rows]


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """PostgreSQL's address, for the sink that needs one."""
    if request.node.callspec.params["kind"] == "delta":
        pytest.importorskip("deltalake")
        yield ""
        return
    with postgresql_address() as address:
        yield address


@pytest.mark.parametrize("kind", ["delta", "jdbc"])
def test_large_batches_go_through_the_spool_of_a_server_and_on_after_a_kill(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, server: str, kind: str, database: str
) -> None:
    """The query goes on without its runner; the next runner ends it, maybe in mid-batch."""
    topic = f"connect-batches-{kind}"
    make_topic(moldau_broker, topic, 2)
    for partition in range(2):
        send(moldau_broker, topic, large_orders(ROWS, partition * ROWS), partition)
    spool = tmp_path / "checkpoints" / topic / "spool"
    config = {
        **orders_lake(topic, tmp_path),
        "spark.deploy": "remote",
        "spark.remote": server,
        "value.schema": "id BIGINT, note STRING",
        "sink.format": kind,
        "sink.table": "orders",
        "jdbc.url": database,
        "max.offsets.per.trigger": str(BATCH),
    }

    with running(moldau_broker, topic, config) as events:
        events.until("progress")
        eventually(lambda: list(spool.glob("*.arrow")))
        events.process.kill()
    with running(moldau_broker, topic, config) as events:
        assert events.until("session")["deploy"] == "remote"
        events.until("finished")

    assert rows_of(kind, tmp_path, database) == [(each, NOTE) for each in range(2 * ROWS)]
    assert not spool.exists()
