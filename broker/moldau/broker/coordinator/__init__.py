"""The coordinators: their business logic as pure cores, and the one runtime of all cores.

A core is the logic of one partition of a log. The runtime loads the cores, appends and replays
their records, and parks answers until the records are committed. `outcome` is what a core returns
to the runtime. `group` holds the cores of groups and their offsets, stored in `__consumer_offsets`.
"""
