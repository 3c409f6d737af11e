"""The limits of what a message from an untrusted peer may cost.

A count on the wire costs one byte, the object that it announces hundreds: so objects are charged to
a budget before they are created. The charges are estimates of CPython's sizes, rounded up.
"""

from __future__ import annotations

# The memory for the objects of one message. Views of the input cost nothing but themselves.
DECODE_BUDGET = 64 << 20

# Tagged fields in one struct, known and unknown ones.
MAX_TAGS = 64

# Kafka's own limit for every string, because the old length prefix has 16 bits.
MAX_STRING_BYTES = 32767

# The cost of one object besides its content: an empty struct, a slot of it, a list, a string.
STRUCT_COST = 48
SLOT_COST = 8
LIST_COST = 88
STRING_COST = 80
BYTES_COST = 40
VIEW_COST = 200
UUID_COST = 56
NUMBER_COST = 32
