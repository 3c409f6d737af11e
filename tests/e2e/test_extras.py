"""Each extra of `moldau` alone, in an environment of its own, is enough for its first example.

The examples are programs and configs of docs/, with the addresses and folders of the test. This
environment has everything, so nothing but such an installation shows that a package is missing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from moldau.testing import SyncEmbeddedBroker
from tests.architecture.sources import ROOT
from tests.client.guides import programs, text_of
from tests.client.serdes.served_registry import served_registry
from tests.connectors.spark.runners import SMALL, ids_in, need_spark, orders
from tests.databases.fixtures import mariadb_server as mariadb_server
from tests.databases.fixtures import postgresql_server as postgresql_server
from tests.peers.eventually import eventually
from tests.spark.topics import make_topic, send
from tests.wheels import all_wheels, install, needs_uv, own_wheels

pytestmark = [pytest.mark.slow, pytest.mark.real, needs_uv]

PATIENCE_S: Final = 300.0
_HIDDEN: Final = frozenset({"PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON"})
"""Nothing of the surrounding environment may help."""


class Installed:
    """`moldau[extra]`, a folder to work in, and a broker."""

    def __init__(
        self, home: Path, folder: Path, broker: SyncEmbeddedBroker, request: pytest.FixtureRequest
    ) -> None:
        self.home = home
        self.folder = folder
        self.broker = broker
        self.request = request
        self.environment = {each: os.environ[each] for each in os.environ.keys() - _HIDDEN}
        self.environment["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"

    def run(self, program: str) -> str:
        """Run a program, and return what it prints."""
        done = subprocess.run(  # noqa: S603 - a program of the docs
            [self.home / "bin" / "python", "-c", program],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_guide(self, guide: str, having: str, **addresses: str) -> str:
        """Run the first program of a guide that has this text."""
        program = next(each for each in programs(guide) if having in each)
        program = program.replace("localhost:9092", self.broker.bootstrap_servers)
        for said, real in addresses.items():
            program = program.replace(said, real)
        return self.run(program)

    @contextmanager
    def worker(self, *configs: dict[str, Any], end: str = "") -> Iterator[None]:
        """`moldau connect run` with these configs, until the block ends. `end` is a program that
        runs after it."""
        files = []
        for config in configs:
            file = self.folder / f"{config['name']}.json"
            file.write_text(json.dumps(config))
            files.append(file)
        words = ["--bootstrap", self.broker.bootstrap_servers, "--listen", "127.0.0.1:0",
                 "--state", str(self.folder / "state")]  # fmt: skip
        log = self.folder / "worker.log"
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [self.home / "bin" / "moldau", "connect", "run", *map(str, files), *words],
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=out,
            )
        try:
            yield
        except BaseException as error:
            error.add_note(log.read_text(errors="replace")[-6000:])
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                process.kill()
                process.wait()
                if end:
                    self.run(end)


Example = Callable[[Installed], None]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return all_wheels(tmp_path_factory.mktemp("extras"))


@pytest.fixture
def installed(
    wheels: Path, tmp_path: Path, moldau_broker: SyncEmbeddedBroker, request: pytest.FixtureRequest
) -> Iterator[Installed]:
    """`moldau[extra]` in a bare environment. The extra is the parameter of the test."""
    extra = request.node.callspec.params["extra"]
    if extra == "kerberos" and shutil.which("krb5-config") is None:
        pytest.skip("needs Kerberos's headers: gssapi is compiled (Debian: libkrb5-dev)")
    home, folder = tmp_path / "environment", tmp_path / "folder"
    folder.mkdir()
    install(home, *own_wheels(wheels, extra))
    yield Installed(home, folder, moldau_broker, request)
    shutil.rmtree(home)


def _configs(guide: str) -> list[dict[str, Any]]:
    return [
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", text_of(guide), re.DOTALL)
    ]


def _config(guide: str, name: str, *, folder: Path) -> dict[str, Any]:
    """The config with this name, with its files in this folder."""
    found = next(each for each in _configs(guide) if each.get("name") == name)
    text = json.dumps(found).replace("/data/", f"{folder}/")
    whole: dict[str, Any] = json.loads(text)
    return whole


# The platform: columns, formats, traces


def _arrow(installed: Installed) -> None:
    installed.run_guide("client-reference.md", "import pyarrow")


def _avro(installed: Installed) -> None:
    with served_registry() as registry:
        told = installed.run_guide(
            "serdes.md", "AvroSerializer(", **{"http://localhost:8081": registry.url}
        )
    assert "Order(id=1, customer='ann')" in told


_REGISTERED: Final = """
import asyncio
from dataclasses import dataclass

from moldau.client import Consumer, Producer
from moldau.client.serdes import *

@dataclass
class Order:
    id: int

async def main():
    async with SchemaRegistry({registry!r}) as registry:
        async with Producer(
            bootstrap_servers={broker!r}, value_serializer={serializer}
        ) as producer:
            await producer.send({topic!r}, {value})
        async with Consumer(
            bootstrap_servers={broker!r},
            auto_offset_reset="earliest",
            value_deserializer={deserializer},
        ) as consumer:
            consumer.assign(await consumer.partitions({topic!r}))
            print((await consumer.getone()).value)

asyncio.run(main())
"""


def _registered(installed: Installed, **parts: str) -> str:
    topic = f"extras-{parts['serializer'].partition('(')[0]}"
    with served_registry() as registry:
        given = {"registry": registry.url, "broker": installed.broker.bootstrap_servers}
        return installed.run(_REGISTERED.format(topic=topic, **given, **parts))


def _json_schema(installed: Installed) -> None:
    told = _registered(
        installed,
        serializer="JsonSchemaSerializer(registry, type=Order)",
        deserializer="JsonSchemaDeserializer(registry, type=Order)",
        value="Order(1)",
    )
    assert "Order(id=1)" in told


def _protobuf(installed: Installed) -> None:
    kind = "__import__('google.protobuf.wrappers_pb2').protobuf.wrappers_pb2.StringValue"
    told = _registered(
        installed,
        serializer="ProtobufSerializer(registry)",
        deserializer=f"ProtobufDeserializer(registry, type={kind})",
        value=f"{kind}(value='ann')",
    )
    assert 'value: "ann"' in told


def _msgspec(installed: Installed) -> None:
    installed.run_guide("streams.md", "import msgspec")


def _otel(installed: Installed) -> None:
    told = installed.run_guide("client-reference.md", "Tracing()")
    assert "traced" in told


def _columns(installed: Installed) -> None:
    installed.run("import numpy, polars")
    installed.run_guide("streams.md", ".map_batch(")


def _lakes(installed: Installed) -> None:
    installed.run("import deltalake, pyarrow, pyiceberg")
    installed.run_guide("streams.md", "write_deltalake")


# Connect: databases and files


def _copy_table(installed: Installed, url: str, rows: Callable[[], Sequence[Any]]) -> None:
    """Run the first two configs of jdbc.md: copy a table of SQLite into a table at `url`."""
    shop = sqlite3.connect(installed.folder / "shop.db")
    shop.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)")
    shop.execute("INSERT INTO customer VALUES (1, 'Ada'), (2, 'Jan')")
    shop.commit()
    shop.close()
    source, sink = _configs("jdbc.md")[:2]
    topics = f"{installed.folder.parent.name}-"
    source["config"]["topic.prefix"] = topics
    sink["config"] |= {"topics": f"{topics}customer", "connection.url": url}
    with installed.worker(source, sink):
        eventually(lambda: len(rows()) == 2, within_s=PATIENCE_S)


def _copy_to_server(installed: Installed, server: str) -> None:
    engine = sa.create_engine(installed.request.getfixturevalue(server))

    def rows() -> Sequence[Any]:
        if not sa.inspect(engine).has_table("customer"):
            return []
        with engine.connect() as connection:
            return connection.exec_driver_sql("SELECT id, name FROM customer").fetchall()

    try:
        _copy_table(installed, engine.url.render_as_string(hide_password=False), rows)
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE customer")
    finally:
        engine.dispose()


def _postgres(installed: Installed) -> None:
    _copy_to_server(installed, "postgresql_server")


def _mysql(installed: Installed) -> None:
    _copy_to_server(installed, "mariadb_server")
    installed.run("import cryptography")  # for the usual login of MySQL, which is not here


def _duckdb(installed: Installed) -> None:
    """A worker has the file for itself, so a copy is read."""
    file, copy = installed.folder / "copy.db", installed.folder / "copy-of-copy.db"

    def rows() -> Sequence[Any]:
        if not file.exists():
            return []
        for suffix in ("", ".wal"):
            written = Path(f"{file}{suffix}")
            if written.exists():
                shutil.copy(written, f"{copy}{suffix}")
        read = (
            f"import duckdb; print(duckdb.connect({str(copy)!r}).sql('FROM customer').fetchall())"
        )
        try:
            return ["row"] * installed.run(read).count("(")
        except AssertionError:
            return []  # no table yet

    _copy_table(installed, f"jdbc:duckdb:{file}", rows)
    zoned = "SELECT TIMESTAMPTZ '2026-01-01 00:00:00+00'"
    assert "2026" in installed.run(f'import duckdb; print(duckdb.sql("{zoned}").fetchall())')


def _archive(installed: Installed, **changes: str) -> None:
    """Run the config of files.md that writes Parquet, or another format."""
    topic = f"events-{installed.folder.parent.name}"
    send(installed.broker, topic, [b'{"country": "cz"}'] * 3)
    config = _config("files.md", "archive-events", folder=installed.folder)
    config["config"] |= {"topics": topic, "flush.size": "3", **changes}
    config["config"] |= {
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    kind = config["config"]["format"]
    with installed.worker(config):
        eventually(
            lambda: list((installed.folder / "archive").glob(f"**/country=cz/*.{kind}")),
            within_s=PATIENCE_S,
        )


def _parquet(installed: Installed) -> None:
    _archive(installed)


def _fsspec(installed: Installed) -> None:
    _archive(installed, directory=f"file://{installed.folder}/archive", format="jsonl")


# Spark


def _spark(installed: Installed) -> None:
    need_spark()
    make_topic(installed.broker, "extras-spark", 3)
    told = installed.run_guide("spark.md", "new_session(", **{"spark-orders": "extras-spark"})
    assert "1000 records: key, value, topic, partition" in told


@contextmanager
def _lake(installed: Installed, name: str, end: str = "", **changes: str) -> Iterator[None]:
    """Run a sink of spark.md with 100 orders."""
    need_spark()
    topic = f"{name}-{installed.folder.parent.name}"
    make_topic(installed.broker, topic)
    send(installed.broker, topic, orders(100))
    config = _config("spark.md", name, folder=installed.folder)
    config["config"] |= {"topics": topic, "trigger": "processing 1 second", **SMALL, **changes}
    with installed.worker(config, end=end):
        yield


def _spark_connect(installed: Installed) -> None:
    lake = installed.folder / "orders"
    server = installed.folder / "server"
    server.mkdir(mode=0o700)
    installed.environment["SPARK_LOCAL_CONNECT_DISCOVERY"] = str(server / "discovery.json")
    stop = "from pyspark.sql.connect.local_server import *; stop_local_connect_server()"
    with _lake(installed, "orders-lake", end=stop, **{"spark.deploy": "shared-local"}):
        eventually(
            lambda: (lake / "_spark_metadata").is_dir() and len(ids_in(lake)) == 100,
            within_s=PATIENCE_S,
        )


def _count(installed: Installed, program: str) -> Callable[[], bool]:
    def is_written() -> bool:
        try:
            return "100 rows" in installed.run(program)
        except AssertionError:
            return False  # no table yet

    return is_written


def _delta(installed: Installed) -> None:
    table = installed.folder / "orders-delta"
    read = f"""
from deltalake import DeltaTable
print(DeltaTable({str(table)!r}).to_pyarrow_table().num_rows, "rows")
"""
    with _lake(installed, "orders-delta"):
        eventually(lambda: (table / "_delta_log").is_dir(), within_s=PATIENCE_S)
        eventually(_count(installed, read), within_s=PATIENCE_S)


def _iceberg(installed: Installed) -> None:
    (read,) = re.findall(r"    (from pyiceberg.*?)\n\n(?! )", text_of("spark.md"), re.DOTALL)
    read = read.replace("\n    ", "\n").replace("/data/", f"{installed.folder}/")
    with _lake(installed, "orders-iceberg"):
        eventually(lambda: (installed.folder / "catalog.db").exists(), within_s=PATIENCE_S)
        eventually(_count(installed, read), within_s=PATIENCE_S)


_TLS: Final = """
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from moldau.config import SettingTable, overrides
from moldau.link.security_settings import SECURITY_ROWS
from moldau.link.tls import client_context, tls_files

key = ec.generate_private_key(ec.SECP256R1())
data = pkcs12.serialize_key_and_certificates(
    b"x", key, None, None, BestAvailableEncryption(b"pw")
)
open("store.p12", "wb").write(data)
given = {"ssl.keystore.location": "store.p12", "ssl.keystore.password": "pw"}
try:
    client_context(tls_files(SettingTable(SECURITY_ROWS).resolve(overrides(given))))
except Exception as error:
    assert "private key" in str(error), error  # it was read, and has no certificate
"""


def _tls(installed: Installed) -> None:
    """A PKCS12 store is read."""
    installed.run(_TLS)


_TIERED: Final = """
import base64, pathlib
from moldau.broker.tiered.key_ring import parse_key_ring
from moldau.objects.object_store import ObjectStore
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.runtime.real import run

async def main(runtime):
    address = parse_address(f"file://{pathlib.Path.cwd()}")
    await ObjectStore(runtime, ObstoreBucket(runtime, StoreConfig(address))).check()
    ring = parse_key_ring(f"first {base64.b64encode(bytes(32)).decode()}", "keys")
    cipher, wrapped = ring.new_key(runtime.random, b"here")
    sealed = cipher.seal_with(bytes(12), b"records", b"here")
    opened = ring.unwrap("first", wrapped, b"here").open_with(bytes(12), sealed, b"here")
    print(bytes(opened).decode())

run(main, node="extras")
"""


def _tiered(installed: Installed) -> None:
    """A store is reached, and an encrypted part is read."""
    assert "records" in installed.run(_TIERED)


def _console(installed: Installed) -> None:
    """The command is there; without the extra it says what to install."""
    told = installed.run(
        "import jinja2, starlette, uvicorn; from moldau.console.command import check_installed; "
        "check_installed(); import moldau.console.application; print('ready')"
    )
    assert "ready" in told


def _registry(installed: Installed) -> None:
    """The command has all it needs, and Avro and JSON schemas are understood."""
    program = (
        "from moldau.registry.command import check_installed; check_installed()\n"
        "from moldau.values.schema import Schema\n"
        "from moldau.registry.formats import parse\n"
        "import moldau.registry.server\n"
        "for text, kind in (('\"int\"', 'AVRO'), ('{}', 'JSON')):\n"
        "    print(parse(Schema(text, kind), None).canonical)\n"
    )
    assert installed.run(program).split() == ['"int"', "{}"]


def _registry_protobuf(installed: Installed) -> None:
    """Protobuf schemas are compiled."""
    program = (
        "from moldau.values.schema import Schema\n"
        "from moldau.registry.formats import parse\n"
        "text = 'syntax = \"proto3\"; message M { int32 a = 1; }'\n"
        "print(parse(Schema(text, 'PROTOBUF'), None).file.message_type[0].name)\n"
    )
    assert installed.run(program).strip() == "M"


_OAUTH: Final = """
from joserfc.jwk import ECKey, KeySet
from moldau.link.login.signed_tokens import key_set
import json

made = KeySet([ECKey.generate_key("P-256")])
assert len(key_set(json.dumps(made.as_dict(private=False))).keys) == 1
"""


def _oauth(installed: Installed) -> None:
    """Keys of tokens are read."""
    installed.run(_OAUTH)


_KERBEROS: Final = """
from moldau.link.login.gss import library, principal_name

print(principal_name("kafka/localhost@TEST.MOLDAU"), library().__name__)
"""


def _kerberos(installed: Installed) -> None:
    """The library reads a principal."""
    assert installed.run(_KERBEROS).split() == ["kafka/localhost@TEST.MOLDAU", "gssapi"]


EXAMPLES: Final[dict[str, Example]] = {
    "arrow": _arrow,
    "avro": _avro,
    "columns": _columns,
    "console": _console,
    "delta": _delta,
    "duckdb": _duckdb,
    "fsspec": _fsspec,
    "iceberg": _iceberg,
    "json-schema": _json_schema,
    "kerberos": _kerberos,
    "lakes": _lakes,
    "msgspec": _msgspec,
    "mysql": _mysql,
    "oauth": _oauth,
    "otel": _otel,
    "parquet": _parquet,
    "postgres": _postgres,
    "protobuf": _protobuf,
    "registry": _registry,
    "registry-protobuf": _registry_protobuf,
    "spark": _spark,
    "spark-connect": _spark_connect,
    "tiered": _tiered,
    "tls": _tls,
}


def _extras() -> list[str]:
    manifest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return sorted(manifest["project"]["optional-dependencies"])


def test_every_extra_has_an_example() -> None:
    assert sorted(EXAMPLES) == _extras()


@pytest.mark.parametrize("extra", EXAMPLES)
def test_an_extra_alone_is_enough_for_its_first_example(extra: str, installed: Installed) -> None:
    EXAMPLES[extra](installed)
