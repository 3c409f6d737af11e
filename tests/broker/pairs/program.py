"""`python -m tests.broker.pairs.program`: the client of a case, as a process that may be killed.

It reads lines of JSON: the job first, then {"do": "send", "pieces": [...]}, which it answers when
all is sent, and {"do": "copy"}. At the end of its input it stops, and tells the errors that its
library left to it. `PairsClient.java` and `go/pairs` are the same for other languages.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from typing import Any

from tests.broker.pairs.copiers import LIBRARIES, Job, Library
from tests.broker.pairs.door import Door
from tests.broker.pairs.model import WORKERS, Piece


def main() -> int:
    given = json.loads(sys.stdin.readline())
    del given["kafka"], given["login"]  # for programs that have no `Door`
    job = Job(**{**given, "door": Door(**given["door"])})
    library = LIBRARIES[job.case["client"]](job)
    failed: list[BaseException] = []
    copiers: list[threading.Thread] = []
    for line in sys.stdin:
        wish = json.loads(line)
        if wish["do"] == "send":
            library.send([_piece(each) for each in wish["pieces"]])
            _tell({"did": "send"})
            continue
        for worker in range(WORKERS):
            copiers.append(threading.Thread(target=_copy, args=(library, worker, failed)))
            copiers[-1].start()
    job.stop.set()
    for each in copiers:
        each.join()
    if failed:
        raise failed[0]
    _tell({"errors": job.errors})
    return 0


def _piece(given: Mapping[str, Any]) -> Piece:
    return Piece(range(given["begin"], given["end"]), given["is_aborted"])


def _copy(library: Library, worker: int, failed: list[BaseException]) -> None:
    try:
        library.copy(worker)
    except BaseException as error:
        failed.append(error)


def _tell(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
