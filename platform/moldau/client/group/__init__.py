"""Membership in groups of every protocol, and offsets: cores, and the shells that run them.

Cores (no IO): `classic` (join, sync, heartbeat, leave), with the two kinds of contents that its
members share: partitions (`classic_consumer`) or what users decide (`opaque`); `consumer`
(KIP-848); `member` (common to both cores of a consumer); `subscription_bytes`, `offset_requests`.
Shells: `session` (keeps any member alive), `group_member` (the public class for other protocols),
`offsets` (commit and fetch), `listener` (the user's callbacks).
"""
