"""Groups of the classic protocol: members join, their leader assigns, all of them sync.

`group` is what the table of groups sees. Under it one state, `membership`, and a module for each
family of events: `join`, `sync`, `rebalance` (from the first news of a change to the next
generation), `liveness` (heartbeats, sessions, leaving), `offsets` (who may commit, what expires).
`states` has the states and the one table of transitions.
"""
