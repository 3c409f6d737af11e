"""How much a stranger's message may make us spend.

A count on the wire costs one byte, the object it announces hundreds: so objects are paid from a
budget before they are made. The charges are estimates of CPython's sizes, rounded up.
"""

from __future__ import annotations

# Memory that the objects of one message may take. Views of the input cost nothing but themselves.
DECODE_BUDGET = 64 << 20

# Tagged fields in one struct, known and unknown ones.
MAX_TAGS = 64

# Kafka's own bound for every string, because the old length prefix has 16 bits.
MAX_STRING_BYTES = 32767

# What one object costs besides its content: an empty struct, a slot of it, a list, a string.
STRUCT_COST = 48
SLOT_COST = 8
LIST_COST = 88
STRING_COST = 80
BYTES_COST = 40
VIEW_COST = 200
UUID_COST = 56
NUMBER_COST = 32
