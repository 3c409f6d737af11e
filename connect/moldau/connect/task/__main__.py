"""A process of tasks: `python -m moldau.connect.task`, started by a worker.

Messages on standard input start and stop tasks; see `moldau.connect.worker.host_process`. The
process ends when the worker says so, and at once when the worker is gone.
"""

from __future__ import annotations

from moldau.runtime.children import open_parent_pipe


def main() -> None:
    """Run the tasks. Open the pipe to the worker first: a later import could print to it."""
    pipe = open_parent_pipe()
    from moldau.connect.task.life import live_in_process

    live_in_process(pipe)


if __name__ == "__main__":
    main()
