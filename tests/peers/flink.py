"""Apache Flink with its Kafka connector: the jars, as Maven has them, and how to run a program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.peers.apache_kafka import PeerMissing, cache_folder, fetch_jars
from tests.suites import may_use_java

VERSION: Final = "2.2.1"
CONNECTOR: Final = "5.0.0-2.2"
_OPEN: Final = ("java.lang", "java.lang.invoke", "java.net", "java.text", "java.time", "java.util",
                "java.util.concurrent")  # fmt: skip
"""What Flink's own start scripts open to it."""


def flink_jars_or_skip() -> Path:
    """The folder of the jars. A test that calls it is skipped where they cannot be had."""
    folder = cache_folder().parent / "flink" / f"{VERSION}-{CONNECTOR}"
    wanted = [
        *(
            f"org.apache.flink:{name}:{VERSION}"
            for name in ("flink-streaming-java", "flink-clients")
        ),
        f"org.apache.flink:flink-connector-base:{VERSION}",
        f"org.apache.flink:flink-connector-kafka:{CONNECTOR}",
    ]
    try:
        if shutil.which("javac") is None:
            raise PeerMissing("no JDK is installed")
        if not folder.is_dir():
            fetch_jars(folder, wanted)
    except PeerMissing as missing:
        pytest.skip(f"Flink {VERSION} cannot be had here: {missing}")
    may_use_java()
    return folder


def run_on_flink(source: Path, scratch: Path, *words: str, timeout_s: float = 300) -> str:
    """Compile a program of one class file's name, and run it in a local cluster. Return what it
    prints. Flink loads the program's classes by name, so Java cannot run the source itself."""
    jars = f"{flink_jars_or_skip()}{os.sep}*"
    subprocess.run(  # noqa: S603 - our own file
        ["javac", "-cp", jars, "-d", str(scratch), str(source)],  # noqa: S607
        check=True, capture_output=True, timeout=timeout_s,
    )  # fmt: skip
    opened = [f"-Djava.io.tmpdir={scratch}"]
    opened += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPEN]
    done = subprocess.run(  # noqa: S603 - our own file
        ["java", "-Xmx512m", *opened, "-cp", f"{scratch}{os.pathsep}{jars}", source.stem, *words],  # noqa: S607
        check=False, capture_output=True, text=True, timeout=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
