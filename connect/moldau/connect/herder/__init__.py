"""Makes the connectors and tasks on this worker match the configs.

`plan` compares what should run with what runs, `assignment` shares connectors and tasks among
workers, `restarts` decides when a failed task is restarted; `shell` does the work.
"""
