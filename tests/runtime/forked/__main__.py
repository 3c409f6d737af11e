"""A child for the tests of the fork server: it answers each line of its parent."""

from __future__ import annotations

import os
import sys
import time

from moldau.runtime.children import open_parent_pipe


def main() -> None:
    """Until it is told to go, or the parent is gone."""
    pipe = open_parent_pipe()
    orders: list[bytes] = []
    pipe.listen(orders.append)
    done = 0
    while True:
        if len(orders) == done:
            time.sleep(0.005)
            continue
        word = orders[done].decode()
        done += 1
        if word == "modules":
            pipe.send(str("xml.dom.minidom" in sys.modules).encode())
        elif word == "exit":
            sys.exit(7)
        else:
            print("printed text must not reach the parent")
            pipe.send(f"{word} {os.getpid()}".encode())


if __name__ == "__main__":
    main()
