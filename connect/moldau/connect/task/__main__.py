"""A task in a process of its own: `python -m moldau.connect.task`, started by a worker.

The first message on standard input is the task's spec; the process ends when the task does, and at
once when the worker is gone.
"""

from __future__ import annotations

from moldau.runtime.children import open_parent_pipe


def main() -> None:
    """Take over the pipe before anything is imported that could print."""
    pipe = open_parent_pipe()
    from moldau.connect.task.life import live_in_process

    live_in_process(pipe)


if __name__ == "__main__":
    main()
