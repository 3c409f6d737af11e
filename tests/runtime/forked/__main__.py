"""A child for the tests of the fork server: it answers each line of its parent."""

from __future__ import annotations

import os
import sys

from moldau.runtime.children import Mailbox, open_parent_pipe


def main() -> None:
    """Until it is told to go, or the parent is gone."""
    pipe = open_parent_pipe()
    orders: Mailbox[bytes] = Mailbox()
    pipe.listen(orders.put)
    while (order := orders.take(None)) is not None:
        word = order.decode()
        if word == "modules":
            pipe.send(str("xml.dom.minidom" in sys.modules).encode())
        elif word == "exit":
            sys.exit(7)
        else:
            print("printed text must not reach the parent")
            pipe.send(f"{word} {os.getpid()}".encode())


if __name__ == "__main__":
    main()
