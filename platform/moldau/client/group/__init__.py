"""Consumer groups: membership in both protocols, offsets, and the shell that keeps a member alive.

Cores (no IO): `member` (what both have in common, and what a core tells its shell), `classic` and
`consumer` (one member in the one protocol and in the other), `subscription_bytes`,
`offset_requests`. Shells: `coordinator` (where the group's coordinator is), `offsets`
(commit and fetch), `session` (a member kept alive), `listener` (the user's callbacks).
"""
