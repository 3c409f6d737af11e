"""An archive of Spark's classes on disk, with which its Java starts in half the time.

`moldau spark warm` makes it: Java writes what a short job has loaded (class data sharing). Sessions
that this package starts name it to Java, which maps it in place of reading and checking the jars.

Invariants: an archive appears whole, under a name that says its size; one of other jars or of
another Java is passed over by Java itself, without a word.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from moldau.errors import ConfigError
from moldau.runtime.places import process_id
from moldau.runtime.real_files import RealFiles
from moldau.spark.java import Java

OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The variable whose options Spark's scripts give to the driver's Java, beside all others."""
_SILENT: Final = "-Xlog:cds=off,cds+dynamic=off"
_USE: Final = "-XX:SharedArchiveFile="


def with_archive(java: Java, variables: Mapping[str, str]) -> dict[str, str]:
    """`OPTIONS` with the archive of this Java and this Spark, if there is one; else nothing."""
    given = variables.get(OPTIONS, "")
    found = find_archive(java, variables)
    if found is None or _USE in given:
        return {}
    return {OPTIONS: f'{given} {_USE}"{found}" {_SILENT}'.strip()}


def find_archive(java: Java, variables: Mapping[str, str]) -> str | None:
    """The archive of this Java and this Spark; not one that was cut."""
    files = RealFiles()
    for path in _archives(java, variables):
        size = path.rpartition("-")[2].removesuffix(".jsa")
        if size == str(files.stat(path).size_bytes):
            return path
    return None


def make_archive(java: Java, variables: Mapping[str, str]) -> tuple[str, int]:
    """Runs a short job and writes what it has loaded, in place of an older archive. Gives the path
    and its size in bytes. ConfigError if this Java writes none."""
    from moldau.spark.warming import run_job

    files = RealFiles()
    for path in _archives(java, variables):
        files.remove(path)
    folder = _folder(variables)
    files.make_dirs(folder)
    draft = f"{folder}/draft-{process_id()}.jsa"
    try:
        run_job(f'-XX:ArchiveClassesAtExit="{draft}" {_SILENT}')
        if not files.exists(draft):
            raise ConfigError(
                "this Java has written no archive of classes: use a JDK with class data sharing, "
                "such as Debian's openjdk-17-jre-headless. Spark works without one",
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
    """In the environment that Spark is installed in, or else in the user's cache."""
    if sys.prefix != sys.base_prefix:
        return f"{sys.prefix}/share/moldau"
    cache = variables.get("XDG_CACHE_HOME") or f"{variables.get('HOME', '')}/.cache"
    return f"{cache}/moldau"
