"""Apache Kafka whose broker learns late of what its controller has answered.

A broker follows its controller by the metadata log, mostly within a millisecond, so a test may take
for granted what only a quiet machine keeps true. With

    MOLDAU_KAFKA_BEHIND_MS=150 make test ARGS="-m real tests/client"

each step of the metadata loader of every broker that tests start waits so long: it logs a line of
the size of a page into a pipe that holds one, and the pipe is read at that pace. So the first of
several changes may still be seen at once.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

VARIABLE: Final = "MOLDAU_KAFKA_BEHIND_MS"
_PAGE_BYTES: Final = 4096
_LOG_LINES: Final = """\
appender.pipe.type = File
appender.pipe.name = PIPE
appender.pipe.fileName = {path}
appender.pipe.bufferedIO = false
appender.pipe.layout.type = PatternLayout
appender.pipe.layout.pattern = %-{width}m%n
logger.loader.name = org.apache.kafka.image.loader.MetadataLoader
logger.loader.level = debug
logger.loader.additivity = false
logger.loader.appenderRef.pipe.ref = PIPE
"""


def asked_for_ms() -> int:
    """What the environment says."""
    return int(os.environ.get(VARIABLE, "0"))


def held_back(folder: Path, behind_ms: int) -> str:
    """What to add to the logging of the broker in `folder`, so that it is held back."""
    if not behind_ms:
        return ""
    path = folder / "metadata-loader.pipe"
    if not path.exists():
        os.mkfifo(path)
        threading.Thread(target=_read_slowly, args=(path, behind_ms / 1000), daemon=True).start()
    return _LOG_LINES.format(path=path, width=_PAGE_BYTES - 1)


def _read_slowly(path: Path, every_s: float) -> None:
    """A page each time, as long as the process lives."""
    from fcntl import F_SETPIPE_SZ, fcntl  # Linux alone has it

    reader = os.open(path, os.O_RDWR)  # so that the pipe outlives a broker that is started again
    fcntl(reader, F_SETPIPE_SZ, _PAGE_BYTES)
    pause = threading.Event()
    while os.read(reader, _PAGE_BYTES):
        pause.wait(every_s)
