"""docs/streams-upgrade.md, "Keep a savepoint, and go on from it elsewhere", with a bucket.

What the page says is installed in a bare environment, and its commands run in processes of their
own: two workers by their defaults, two partitions, a savepoint in a bucket of an S3 server, from
which the app goes on in another cluster, and in its own one with more partitions.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.client.sync import Consumer
from moldau.testing import SyncEmbeddedBroker
from tests.broker.tiered import s3_servers
from tests.broker.tiered.s3_servers import BUCKET, KEY, SECRET, running
from tests.client.guides import programs, text_of
from tests.peers.eventually import eventually
from tests.streams.real.running import copied
from tests.wheels import all_wheels, install, needs_uv, own_wheels

pytestmark = [pytest.mark.slow, pytest.mark.real, needs_uv]

GUIDE: Final = "streams-upgrade.md"
PLACE: Final = f"s3://{BUCKET}/wc-1"
LINES: Final = [f"w{number % 13} w{number % 5} last" for number in range(300)]
MORE: Final = [f"w{number} new last" for number in range(13)]
_HIDDEN: Final = re.compile("PYTHON.*|VIRTUAL_ENV|AWS_.*|MOLDAU_.*")
"""Nothing of the surrounding environment may help."""


class Machine:
    """A machine with what the page says, in front of a cluster."""

    def __init__(self, home: Path, folder: Path, servers: str, store: str) -> None:
        self._moldau = home / "bin" / "moldau"
        self._folder = folder
        self.servers = servers
        given = {name: value for name, value in os.environ.items() if not _HIDDEN.fullmatch(name)}
        self._environment = {
            **given,
            "HOME": str(folder),
            "MOLDAU_BOOTSTRAP": servers,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": store,
        }
        folder.mkdir()
        (folder / "wc.py").write_text(programs(GUIDE)[0])

    def run(self, command: str, lines: str = "") -> str:
        """Run a command of the page."""
        done = subprocess.run(  # noqa: S603 - a command of the docs
            [self._moldau, *shlex.split(command)[1:]],
            cwd=self._folder, env=self._environment, input=lines,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def make_topics(self) -> None:
        """As the page makes them."""
        for each in commands()["topic create"]:
            self.run(each)

    def write(self, lines: list[str]) -> None:
        self.run("moldau produce lines", "".join(f"{each}\n" for each in lines))

    @contextmanager
    def working(self, command: str) -> Iterator[None]:
        """Two workers, until they are stopped in order."""
        log = self._folder / "workers.log"
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - a command of the docs
                [self._moldau, *shlex.split(command)[1:], "--workers", "2"],
                cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out,
            )  # fmt: skip
        try:
            yield
        except BaseException as error:
            error.add_note(log.read_text(errors="replace")[-3000:])
            raise
        finally:
            process.terminate()
            process.wait(120)
        assert process.returncode == 0, log.read_text()
        assert "Traceback" not in log.read_text()

    def await_counts(self, wanted: Counter[str]) -> None:
        """Wait until the app has written these counts, and see that it has counted no more."""
        eventually(lambda: self._counts() == wanted, within_s=120)

    def _counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        with Consumer(
            bootstrap_servers=self.servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            parts = consumer.partitions("counts")
            consumer.assign(parts)
            ends = consumer.end_offsets(parts)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in consumer.poll(0.2):
                    for each in part.records:
                        found[each.key.decode()] = int(each.value)
        return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install 'moldau[tiered]'` in a bare environment."""
    found = tmp_path_factory.mktemp("bare") / "environment"
    install(found, *own_wheels(all_wheels(tmp_path_factory.mktemp("wheels")), "tiered"))
    return found


def counts(*lines: str) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


def commands() -> dict[str, list[str]]:
    """The commands of the page, by what they do."""
    found: dict[str, list[str]] = {}
    for command in re.findall(r"^\$ (moldau .*)$", text_of(GUIDE), re.MULTILINE):
        found.setdefault(" ".join(command.split()[1:3]), []).append(command)
    return found


def in_bucket(command: str) -> str:
    """A command with the page's other place: "below a new prefix of a bucket, `s3://...`"."""
    assert "`s3://bucket/wc-1`" in text_of(GUIDE)
    assert command.count("./wc-1") == 1
    return command.replace("./wc-1", PLACE)


def elsewhere(command: str, servers: str) -> str:
    assert command.endswith("-b other:9092")
    return command.replace("other:9092", servers)


def test_the_page_with_a_bucket_in_an_environment_with_what_it_says(
    home: Path, tmp_path: Path
) -> None:
    said = commands()
    (save,), (reset,), (alter,) = (
        said[each] for each in ("streams savepoint", "streams reset", "topic alter")
    )
    restore_there, restore_here = said["streams restore"]
    run_here, run_there = said["streams run"][0], said["streams run"][-1]
    with (
        running(s3_servers.moto) as store,
        SyncEmbeddedBroker({}) as here_broker,
        SyncEmbeddedBroker({}) as there_broker,
    ):
        here = Machine(home, tmp_path / "here", here_broker.bootstrap_servers, store.url)
        there = Machine(home, tmp_path / "there", there_broker.bootstrap_servers, store.url)
        here.make_topics()
        here.write(LINES)
        with here.working(run_here):
            here.await_counts(counts(*LINES))
        here.run(in_bucket(save))

        there.make_topics()
        copied(here.servers, there.servers, "lines")
        there.run(elsewhere(in_bucket(restore_there), there.servers))
        there.write(MORE)
        with there.working(elsewhere(run_there, there.servers)):
            wanted = counts(*LINES, *MORE)
            there.await_counts(Counter({word: wanted[word] for word in counts(*MORE)}))

        here.run(reset)
        here.run(alter)
        here.run(in_bucket(restore_here))
        here.write(MORE)
        with here.working(run_here):
            here.await_counts(counts(*LINES, *MORE))
