"""Groups of the classic protocol: members join, the leader assigns, all members sync.

`group` is the interface to the table of groups. Below it there is one state, `membership`, and a
module for each family of events: `join`, `sync`, `rebalance` (from a change to the next
generation), `liveness` (heartbeats, sessions, leaving), `offsets` (which commits are accepted, what
expires). `states` has the states and the only table of transitions.
"""
