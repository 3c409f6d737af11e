"""`moldau tier` against a broker: what is remote, what waits, and what the store has lost."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC
from tests.cli.shell import Done, Shell
from tests.console.cells import Cells
from tests.console.shown import browser
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real
RECORDS = 60
_CONFIGS = [f"--config={name.replace('_', '.')}={value}" for name, value in TOPIC.items()]


class Tiered:
    """A broker with remote storage in a folder, and a topic of which all but the active segment is
    there."""

    def __init__(self, shell: Shell, store: Path) -> None:
        self.shell = shell
        self.store = store

    def status(self, *words: str) -> dict[str, Any]:
        (found,) = json.loads(self.shell.good("tier", "status", "orders", "--json", *words).out)
        assert isinstance(found, dict)
        return found

    def verify(self, *words: str) -> Done:
        return self.shell("tier", "verify", "orders", *words)

    def found(self, *words: str) -> list[tuple[str, str]]:
        done = self.verify("--json", *words)
        found = [
            (Path(each["name"]).name, each["problem"]) for each in json.loads(done.out)["found"]
        ]
        assert done.code == (1 if found else 0), done
        return found

    def objects(self, ending: str) -> list[Path]:
        return sorted(self.store.rglob(f"*{ending}"))

    def is_copied(self) -> bool:
        found = self.status()
        return 0 < found["local_start"] == found["first_not_remote"] and not found["copying"]


@pytest.fixture
def keys() -> str | None:
    return None


@pytest.fixture
def tiered(tmp_path: Path, keys: str | None) -> Iterator[Tiered]:
    store = tmp_path / "store"
    store.mkdir()
    settings = {name.replace("_", "."): value for name, value in SETTINGS.items()}
    settings["remote.storage"] = f"file://{store}"
    if keys is not None:
        settings["remote.storage.encryption.keys"] = keys
    with SyncEmbeddedBroker(settings) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.good("topic", "create", "orders", *_CONFIGS)
        for _ in range(4):
            text = "".join(f"{'x' * 200}\n" for _ in range(RECORDS // 4))
            shell.good("produce", "orders", "--set", "batch.size=500", source=text)
        it = Tiered(shell, store)
        eventually(it.is_copied)
        yield it


def test_copy_now_leaves_no_backlog(tiered: Tiered) -> None:
    assert tiered.status()["first_not_remote"] < RECORDS
    tiered.shell.good("topic", "alter", "orders", "-c", "remote.copy.lag.ms=-1")
    done = tiered.shell("tier", "copy-now", "orders", "--json")
    assert (done.code, "records wait for their copy" in done.err) == (0, True)
    (found,) = json.loads(done.out)
    assert (found["end"], found["first_not_remote"], found["error"]) == (RECORDS, RECORDS, None)
    assert tiered.status()["backlog_records"] == 0
    again = tiered.shell.good("tier", "copy-now", "orders")
    assert again.rows == [["orders", "0", str(RECORDS), str(RECORDS), "-"]]


def test_copy_now_of_a_topic_that_is_not_copied_says_why(tiered: Tiered) -> None:
    tiered.shell.good("topic", "create", "local")
    done = tiered.shell("tier", "copy-now", "local")
    assert done.code == 1
    assert "remote.storage.enable" in done.out
    words = ("remote.log.copy.disable=true", "local.retention.bytes=-2", "local.retention.ms=-2")
    settings = [word for each in words for word in ("-c", each)]
    tiered.shell.good("topic", "alter", "orders", *settings)
    assert "remote.log.copy.disable" in tiered.shell("tier", "copy-now", "orders").out


def test_status_says_what_is_remote_and_what_waits(tiered: Tiered) -> None:
    found = tiered.status("--price", "1000000")
    segments = len(tiered.objects(".log"))
    assert found["start"] == 0
    assert found["end"] == RECORDS
    assert found["segments"] == segments > 0
    assert found["backlog_records"] == RECORDS - found["first_not_remote"]
    assert 0 < found["backlog_bytes"] <= found["local_bytes"]
    assert found["remote_bytes"] > 200 * found["first_not_remote"]
    assert found["cost_per_month"] > 0
    assert found["last_copy_ms"] > 0
    told = tiered.shell.good("tier", "status").out.splitlines()
    assert told[0].split()[:2] == ["TOPIC", "PARTITION"]
    assert told[1].split()[:3] == ["orders", "0", "0"]
    assert "ago" in told[1]


def test_a_page_of_the_console_says_where_tiers_begin(tiered: Tiered) -> None:
    async def pages() -> tuple[str, str]:
        async with browser(tiered.shell.environment["MOLDAU_BOOTSTRAP"]) as client:
            tiers = await client.get("/topics/orders/tiers")
            plain = await client.get("/topics/plain/tiers")
        assert tiers.status_code == plain.status_code == 200
        return tiers.text, plain.text

    tiered.shell.good("topic", "create", "plain")
    tiers, plain = asyncio.run(pages())
    found = tiered.status()
    row = Cells(tiers).row("0")
    assert row[1:4] == ["0", str(found["local_start"]), str(RECORDS)]
    assert row[4:6] == [str(found["first_not_remote"]), str(found["backlog_records"])]
    assert "remote.storage.enable" not in tiers
    assert Cells(plain).row("0")[4:6] == ["-", "-"]
    assert "remote.storage.enable" in plain


def test_a_store_that_has_all_is_as_it_should_be(tiered: Tiered) -> None:
    done = tiered.verify()
    assert done.code == 0
    assert "all as it should be" in done.out
    assert tiered.found() == []


def test_verify_finds_missing_cut_and_foreign_objects_and_changes_nothing(tiered: Tiered) -> None:
    first, second = tiered.objects(".log")[:2]
    index = tiered.objects(".indexes")[2]
    first.rename(first.with_name("set-aside"))
    second.write_bytes(second.read_bytes()[:-1])
    index.write_bytes(index.read_bytes() + b"x")
    stray = index.with_name(f"{7:020d}-{'A' * 22}.log")
    stray.write_bytes(b"stray")
    before = {each: each.read_bytes() for each in tiered.objects("") if each.is_file()}

    problems = dict(tiered.found())

    assert problems.keys() == {each.name for each in (first, second, index, stray)}
    assert "missing" in problems[first.name]
    size = second.stat().st_size
    assert f"has {size} bytes, and should have {size + 1}" in problems[second.name]
    assert "bytes" in problems[index.name]
    assert "no segment" in problems[stray.name]
    assert {each: each.read_bytes() for each in tiered.objects("") if each.is_file()} == before
    told = tiered.verify()
    assert told.code == 1
    assert "4 problems" in told.out


def test_a_wrong_topic_price_or_store_is_one_line(tiered: Tiered) -> None:
    for words in (
        ("status", "nowhere"),
        ("status", "--price", "much"),
        ("verify", "nowhere"),
        ("verify", "orders", "--store", "ftp://x"),
        ("verify", "orders", "--keys", "/no/such/file"),
    ):
        done = tiered.shell("tier", *words)
        assert done.code != 0
        assert "Traceback" not in done.err
        assert done.err.startswith("moldau")


def test_a_cluster_without_remote_storage_says_so() -> None:
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        assert "no topic has" in shell.good("tier", "status").out
        shell.good("topic", "create", "plain")
        (found,) = json.loads(shell.good("tier", "status", "plain", "--json").out)
        assert (found["segments"], found["first_not_remote"]) == (0, None)
        assert "--store" in shell("tier", "verify", "plain").err


def test_what_a_lag_of_the_broker_holds_back_goes_when_the_lag_is_lowered(tmp_path: Path) -> None:
    settings = {name.replace("_", "."): value for name, value in SETTINGS.items()}
    settings |= {"remote.storage": f"file://{tmp_path}", "log.remote.copy.lag.ms": "3600000"}
    with SyncEmbeddedBroker(settings) as broker:
        shell = Shell(broker.bootstrap_servers)
        configs = [each for each in _CONFIGS if "local" not in each]
        shell.good("topic", "create", "orders", *configs)
        text = "".join(f"{'x' * 200}\n" for _ in range(RECORDS))
        shell.good("produce", "orders", "--set", "batch.size=500", source=text)
        it = Tiered(shell, tmp_path)
        eventually(lambda: it.status()["first_not_remote"] == 0)
        found = it.status()
        assert (found["segments"], found["backlog_records"]) == (0, RECORDS)
        assert found["backlog_bytes"] == found["local_bytes"] > 200 * RECORDS
        shell.good("config", "set", "broker", "default", "log.remote.copy.lag.ms=0")
        eventually(lambda: it.status()["segments"] > 3)
        assert it.status()["local_start"] == 0, "the disk keeps as much as the log"


@pytest.fixture
def encrypted(tmp_path: Path) -> str:
    path = tmp_path / "keys"
    path.write_text(f"first {base64.b64encode(bytes(32)).decode()}\n")
    return str(path)


class TestEncrypted:
    """Segments with a key of their own."""

    @pytest.fixture
    def keys(self, encrypted: str) -> str:
        return encrypted

    def test_sizes_of_logs_need_the_keys(self, tiered: Tiered, encrypted: str) -> None:
        log = tiered.objects(".log")[0]
        log.write_bytes(log.read_bytes()[:-1])
        assert tiered.found() == []
        assert "--keys" in tiered.verify().out
        ((name, _),) = tiered.found("--keys", encrypted)
        assert name == log.name
