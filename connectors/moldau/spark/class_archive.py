"""Start Spark in half the time with an archive of its Java classes (class data sharing).

`moldau spark warm` makes the archive: it runs a short job, and Java writes the classes that the job
has loaded to disk. Sessions that this package starts pass the archive to Java. Java then maps it
into memory and does not read and check the jars.

Invariants: an archive becomes visible only when it is complete, under a name that has its size.
Java itself ignores, silently, an archive of other jars or of another Java.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from moldau.errors import ConfigError
from moldau.runtime.places import process_id
from moldau.runtime.real_files import RealFiles
from moldau.spark.java import Java

OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable with more Java options for the driver; Spark's scripts read it."""
_NO_LOG: Final = "-Xlog:cds=off,cds+dynamic=off"
_USE_ARCHIVE: Final = "-XX:SharedArchiveFile="


def with_archive(java: Java, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make Java use the archive.

    The result is empty if there is no archive of this Java and this Spark, or if the user's own
    options name an archive."""
    given = variables.get(OPTIONS, "")
    found = find_archive(java, variables)
    if found is None or _USE_ARCHIVE in given:
        return {}
    return {OPTIONS: f'{given} {_USE_ARCHIVE}"{found}" {_NO_LOG}'.strip()}


def find_archive(java: Java, variables: Mapping[str, str]) -> str | None:
    """Return the path of the archive of this Java and this Spark, or None.

    A file that has not the size in its name is incomplete and is not returned."""
    files = RealFiles()
    for path in _archives(java, variables):
        size = path.rpartition("-")[2].removesuffix(".jsa")
        if size == str(files.stat(path).size_bytes):
            return path
    return None


def make_archive(
    java: Java, variables: Mapping[str, str], run_job: Callable[[str], None]
) -> tuple[str, int]:
    """Run a job with more Java options and archive the classes that it loads. Replace an older
    archive.

    Returns the path and the size in bytes. Raises ConfigError if this Java writes no archive."""
    files = RealFiles()
    for path in _archives(java, variables):
        files.remove(path)
    folder = _folder(variables)
    files.make_dirs(folder)
    draft = f"{folder}/draft-{process_id()}.jsa"
    try:
        run_job(f'-XX:ArchiveClassesAtExit="{draft}" {_NO_LOG}')
        if not files.exists(draft):
            raise ConfigError(
                "this Java has written no archive of classes: use a JDK with class data sharing, "
                "such as Debian's openjdk-17-jre-headless. Spark also works without an archive",
                java=java.home,
                source=java.source,
            )
        size = files.stat(draft).size_bytes
        path = f"{folder}/{_prefix(java)}{size}.jsa"
        files.rename(draft, path)
    finally:
        if files.exists(draft):
            files.remove(draft)
    return path, size


def _archives(java: Java, variables: Mapping[str, str]) -> list[str]:
    files, folder = RealFiles(), _folder(variables)
    if not files.exists(folder):
        return []
    names = [each for each in files.list(folder) if each.startswith(_prefix(java))]
    return [f"{folder}/{each}" for each in names]


def _prefix(java: Java) -> str:
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        spark = "unknown"
    key = hashlib.sha256(f"{java.home}\n{sys.prefix}".encode()).hexdigest()[:12]
    return f"spark-{spark}-java-{java.version}-{key}-"


def _folder(variables: Mapping[str, str]) -> str:
    """Return the folder of archives: in the virtual environment, or else in the user's cache."""
    if sys.prefix != sys.base_prefix:
        return f"{sys.prefix}/share/moldau"
    cache = variables.get("XDG_CACHE_HOME") or f"{variables.get('HOME', '')}/.cache"
    return f"{cache}/moldau"
