"""Spark's own Kafka source and sink: the jars, as Maven publishes them, and a program to run.

`stock_jars()` brings the four jars that PySpark lacks into the user's cache, once; it raises
`PeerMissing` where that cannot be had.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.peers.apache_kafka import FETCH_TIMEOUT_S, PeerMissing, cache_folder

VERSION: Final = "4.2.0"
"""The newest that Maven has; it runs on PySpark 4.3."""
_ARTIFACTS: Final = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>moldau</groupId><artifactId>spark-kafka</artifactId>
<version>1</version><packaging>pom</packaging><dependencies><dependency>
<groupId>org.apache.spark</groupId><artifactId>{_ARTIFACTS[0]}</artifactId>
<version>{VERSION}</version></dependency></dependencies></project>
"""


def stock_jars() -> list[Path]:
    """The jars for `spark.jars`."""
    folder = cache_folder().parent / "spark-kafka" / VERSION
    if not folder.is_dir():
        _fetch_into(folder)
    return sorted(folder.glob("*.jar"))


def _fetch_into(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing("mvn is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        pom, arriving = Path(scratch, "pom.xml"), Path(scratch, "jars")
        pom.write_text(_POM, encoding="utf-8")
        command = [
            maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DincludeArtifactIds={','.join(_ARTIFACTS)}",
            f"-DoutputDirectory={arriving}",
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - fixed arguments, run by the mvn that was found
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise PeerMissing(f"Maven did not bring the jars in {FETCH_TIMEOUT_S} s") from late
        if done.returncode or len(list(arriving.glob("*.jar"))) != len(_ARTIFACTS):
            raise PeerMissing(f"Maven failed: {(done.stdout + done.stderr).strip()[:300]}")
        arriving.rename(folder)
