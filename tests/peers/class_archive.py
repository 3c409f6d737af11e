"""Make an archive of Apache Kafka's Java classes, with which it starts with two thirds of the CPU.

    python -m tests.peers.class_archive

Java maps the archive into memory and does not read and check those classes in the jars again. It
has what a broker, its tools and the compiler of a source file load: each of these runs once and
writes down its classes. `ApacheKafka.command` uses the archive, and deep tests start hundreds of
such processes.

Invariants: an archive becomes visible by one rename, when it is complete. Java itself refuses an
archive of another Java or of other jars, and runs without.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from moldau.runtime.signals import Terminated, interrupted_by_sigterm
from tests.peers.apache_kafka import SHORT_JVM, ApacheKafka, PeerMissing, fetch
from tests.peers.kafka_broker import TOOL_JVM, BrokerFailed, BrokerOptions, KafkaBroker, run_tool

TOOLS: Final[tuple[tuple[str, ...], ...]] = (
    ("org.apache.kafka.tools.TopicCommand", "--list"),
    ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--list"),
    ("org.apache.kafka.tools.ConfigCommand", "--describe", "--entity-type", "topics"),
)
SOURCE: Final = Path(__file__).parent.parent / "conformance" / "programs" / "JavaClient.java"
RUN_S: Final = 120
DUMP_S: Final = 900


def make(kafka: ApacheKafka) -> Path:
    """Make the archive if there is none yet, and return its path."""
    archive = kafka.archive
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="make-") as scratch:
        classes, draft = Path(scratch) / "classes", Path(scratch) / "draft.jsa"
        classes.write_text("".join(f"{each}\n" for each in loaded(kafka, Path(scratch))), "utf-8")
        options = ("-Xshare:dump", *SHORT_JVM, f"-XX:SharedClassListFile={classes}")
        _run(kafka.command(*options, f"-XX:SharedArchiveFile={draft}"), DUMP_S)
        draft.rename(archive)
    return archive


def loaded(kafka: ApacheKafka, folder: Path) -> list[str]:
    """Run each once. Return the lines in which Java says which classes it has loaded."""
    lists: list[Path] = []

    def written() -> str:
        lists.append(folder / f"list-{len(lists)}")
        return f"-XX:DumpLoadedClassList={lists[-1]}"

    options = BrokerOptions(jvm=(*SHORT_JVM, written()))
    with KafkaBroker.started(kafka, folder / "broker", options) as broker:
        where = ("--bootstrap-server", broker.bootstrap_servers)
        for tool, *words in TOOLS:
            run_tool(kafka, tool, *where, *words, jvm=(*TOOL_JVM, written()))
    with suppress(subprocess.CalledProcessError):  # the program wants more words, once compiled
        _run([*kafka.command(*SHORT_JVM, written()), str(SOURCE)], RUN_S)
    lines = [line for each in lists for line in each.read_text("utf-8").splitlines()]
    return list(dict.fromkeys(lines))


def _run(command: Sequence[str], timeout_s: float) -> None:
    subprocess.run(  # noqa: S603 - Kafka's class path, by the java that was found
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=True
    )


def main(say: Callable[[str], None] = print) -> int:
    """Make the archive. Return the exit code: 0 if there is one now."""
    try:
        with interrupted_by_sigterm():  # so that no draft stays behind
            say(f"Apache Kafka will use this archive of its classes: {make(fetch())}")
    except Terminated:
        return 128 + signal.SIGTERM
    except (PeerMissing, BrokerFailed, OSError, RuntimeError, subprocess.SubprocessError) as why:
        say(f"Apache Kafka will start without an archive of its classes: {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
