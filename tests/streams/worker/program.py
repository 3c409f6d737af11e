"""A counting worker as a process: SERVERS APP LINES OUT STATE INDEX; a signal stops it.

It writes what it restored to the standard output as it stops: task and records, a line each.
"""

from __future__ import annotations

import sys

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.runtime.signals import until_signal
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.shell import Worker
from moldau.streams.worker.state_directory import StateDirectory
from tests.streams.worker.counting import CountingTask, word_count


async def main(runtime: Runtime) -> None:
    servers, app, lines, out, state, index = sys.argv[1:]
    given = {
        "bootstrap.servers": servers,
        "commit.interval.ms": 100,
        "rocksdb.write.buffer.bytes": 1 << 16,
    }
    directory = StateDirectory.open(state, app, int(index), runtime)
    reports = Reports()
    worker = Worker(
        word_count(app, lines, out), CountingTask, app_settings(given), directory, runtime, reports
    )
    await until_signal(worker.run())
    print("restored", reports.restored_total)


if __name__ == "__main__":
    run(main)
