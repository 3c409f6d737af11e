"""Look for findings in one target for some time; what is found goes into the corpus.

With atheris the search runs in a child process, because libFuzzer ends the process at its first
finding and leaves the input in a file. Without it, or when asked to, mutants are tried at random
in this process.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz import corpus
from tests.fuzz.mutation import mutants
from tests.fuzz.target import Target, feed

ROOT = Path(__file__).parents[2]
LEFT_BY_LIBFUZZER = ("crash-*", "timeout-*", "oom-*")
MEMORY_MIB_MAX = 1024
INPUT_SECONDS_MAX = 5
# A new process begins with the most memory that the process which made it ever had, and libFuzzer
# counts that: so a small one stands between, and the bound is the search's alone.
BETWEEN = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def guided(target: Target, seconds: int, folder: Path = corpus.FOLDER) -> list[str]:
    """Search by coverage; the labels of the inputs that were found and kept."""
    with TemporaryDirectory() as name:
        inputs, findings = Path(name, "inputs"), Path(name, "findings")
        inputs.mkdir()
        findings.mkdir()
        for number, (_, data) in enumerate(corpus.load(target.name, folder)):
            (inputs / str(number)).write_bytes(data)
        command = _command(target, seconds, inputs, findings)
        answer = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603
        left = [path for pattern in LEFT_BY_LIBFUZZER for path in sorted(findings.glob(pattern))]
        labels = [corpus.keep_crash(target.name, path.read_bytes(), folder) for path in left]
    if answer.returncode and not labels:
        raise RuntimeError(f"the search in {target.name} ended with {answer.returncode}")
    return labels


def at_random(
    target: Target,
    seconds: float,
    folder: Path = corpus.FOLDER,
    *,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Search by mutation of the corpus, until the first finding or until the time is over."""
    inputs: Sequence[bytes] = [data for _, data in corpus.load(target.name, folder)] or [b""]
    end = clock() + seconds
    tried = 0
    for data in mutants(inputs, Random(seed)):
        try:
            feed(target, data)
        except Exception:
            traceback.print_exc()
            return [corpus.keep_crash(target.name, data, folder)]
        tried += 1
        if clock() >= end:
            break
    print(f"{target.name}: {tried} mutants, nothing found")
    return []


def _command(target: Target, seconds: int, inputs: Path, findings: Path) -> list[str]:
    return [
        *(sys.executable, "-c", BETWEEN),
        *(sys.executable, "-m", "tests.fuzz.guided"),
        target.name,
        str(inputs),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={findings}/",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        "-max_len=4096",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
