"""A worker: the member of the app's group that runs its share of the tasks.

`shell.Worker` polls, passes records to tasks, sends what they make, and commits. `door` has every
use of the client, `commit` the one order in which everything becomes durable.
"""
