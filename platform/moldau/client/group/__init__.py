"""Membership in groups of every protocol, and offsets: cores, and the shells that keep them alive.

Cores (no IO): `classic` (join, sync, heartbeat, leave) with what its members share, partitions
(`classic_consumer`) or what their users decide (`opaque`); `consumer` (KIP-848); `member` (what
both cores of a consumer have in common); `subscription_bytes`, `offset_requests`. Shells: `session`
(any member kept alive), `consumer_session` (what changes for a consumer), `group_member` (the door
for other protocols), `coordinator` (where the group's coordinator is), `offsets` (commit and
fetch), `listener` (the user's callbacks).
"""
