"""`python -m examples.million_records [--count N]`: the commands a user would type, one by one.

Everything happens in a temporary directory and on a port of its own, and is gone afterwards.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MOLDAU = str(Path(sys.executable).with_name("moldau"))
TOPIC = "demo"
STOP_TIMEOUT_S = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.million_records", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N")
    count = parser.parse_args(arguments).count
    with (
        tempfile.TemporaryDirectory(prefix="moldau-demo-") as folder,
        running_broker(folder) as bootstrap,
    ):
        for words in (
            ("topic", "create", TOPIC, "--partitions", "6"),
            ("produce", TOPIC, "--count", str(count), "--size", "100"),
            ("consume", TOPIC, "--count", str(count), "--quiet"),
            ("topic", "describe", TOPIC),
        ):
            code = show(words, bootstrap)
            if code:
                return code
    print("\nThe broker was stopped and its data removed. Yours: moldau broker start")
    return 0


@contextmanager
def running_broker(folder: str) -> Iterator[str]:
    """A broker as a process of its own; it takes connections where this says."""
    command = (MOLDAU, "broker", "start", "--data", folder, "--listen", "127.0.0.1:0")
    print("$ moldau broker start --data ... --listen 127.0.0.1:0", flush=True)
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip()
            print(f"  {text}")
            if text.lstrip().startswith("bootstrap"):
                break
        else:
            raise SystemExit(process.wait(STOP_TIMEOUT_S))
        yield text.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=STOP_TIMEOUT_S)


def show(words: Sequence[str], bootstrap: str) -> int:
    """Runs a command as a user would see it."""
    print(f"\n$ moldau {' '.join(words)}", flush=True)
    command = (MOLDAU, *words, "--bootstrap", bootstrap)
    return subprocess.run(command, check=False).returncode  # noqa: S603 - our own command


if __name__ == "__main__":
    sys.exit(main())
