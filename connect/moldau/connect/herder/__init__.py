"""What runs on this worker, and what it takes to get there.

`plan` compares what should run with what does, `assignment` shares connectors and tasks among
workers, `restarts` says when a failed task begins again; `shell` does it.
"""
