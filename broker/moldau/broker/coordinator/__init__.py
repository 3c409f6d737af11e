"""The coordinators: business logic as pure cores over a partition of a log, and the one runtime
that appends for them, replays, parks answers until they are committed, and loads.

`outcome` is what a core hands to the runtime; `group` holds the cores of consumer groups and
their offsets over `__consumer_offsets`.
"""
