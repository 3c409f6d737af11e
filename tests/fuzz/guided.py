"""The child process of a guided search: `python -m tests.fuzz.guided TARGET INPUTS OPTION...`.

moldau is instrumented as it is imported. Codecs are not imported but written and executed, so
`exec` is wrapped, and what reads messages is instrumented before it is executed: that is what is to
be covered. All inputs run once before libFuzzer starts to count its time, because instrumenting the
readers of all messages takes longer than a short search.
"""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

READERS = "<read "


class Instrumented:
    """Stands in for `exec`: instruments readers first, and counts them."""

    def __init__(self) -> None:
        self._exec = builtins.exec
        self.count = 0

    def __call__(self, code: Any, *scopes: Any, **options: Any) -> None:
        if isinstance(code, CodeType) and code.co_filename.startswith(READERS):
            code = atheris.patch_code(code, True)
            self.count += 1
        self._exec(code, *scopes, **options)


def main() -> None:
    name, inputs = sys.argv[1:3]
    builtins.exec = instrumented = Instrumented()
    with atheris.instrument_imports(include=["moldau"]):
        from tests.fuzz.target import feed
        from tests.fuzz.targets import TARGETS

        target = TARGETS[name]
        for path in Path(inputs).iterdir():
            feed(target, path.read_bytes())
    assert instrumented.count or name != "messages", "no reader of a message was instrumented"

    def one(data: bytes) -> None:
        feed(target, data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
