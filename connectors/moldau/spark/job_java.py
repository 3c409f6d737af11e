"""The Java of a job: it ends when the job does, however the job ends.

PySpark starts Java, and Java ends when its standard input does. Two things are missing:

1. PySpark waits for a file of Java's. A signal raises an exception meanwhile. 2. PySpark removes
   the file's directory. 3. Java cannot write the file: its main thread ends by an exception, before
   it reads its standard input. 4. The thread that accepts PySpark's connections keeps Java alive,
   for ever.
A Java that hangs while it shuts down stays, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from moldau.runtime.program_leash import ProgramLeash


def leash_java() -> None:
    """Let PySpark start Java on a leash from now on. Call it once, before a session is made: then
    the sessions that are open are closed before Java ends."""
    try:
        gateway: Any = import_module("pyspark.java_gateway")
    except ImportError:  # a client of Spark Connect servers alone, without Java
        return
    assert hasattr(gateway, "Popen"), "this PySpark starts Java in another way"
    gateway.Popen = ProgramLeash().start
