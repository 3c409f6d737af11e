"""State that must survive is a fold over a compacted topic, on the client's side too.

`TopicFold` makes or checks the topic and replays it, `Elected` is a member of a group in which one
leads, and `LeaderWriter` carries out the decisions of that one. The Schema Registry, Connect's
stores and mirrors are built of them; `progress` is their core, and the global tables' too.

Invariants: a fold is caught up when its position has reached the end that the leader of the
partition has named after the question; a predecessor of a leader is fenced before the leader
decides; an answer leaves when its records are committed and replayed.
"""
