"""Every form that changes a cluster."""

from __future__ import annotations

RECORD = "what-the-record-holds"

FORMS = {
    "/topics": {"name": "made"},
    "/topics/orders/settings": {"name": "retention.ms", "value": "60000"},
    "/topics/orders/messages": {"value": RECORD},
    "/topics/orders/partitions": {"count": "9"},
    "/topics/orders/delete": {"name": "orders"},
    "/change-topics/set": {"topic:made": "1", "setting": "retention.ms", "value": "1"},
    "/change-topics/empty": {"before:made:0": "0", "typed": "made"},
    "/change-topics/delete": {"topic:made": "1", "typed": "made"},
    "/groups/billing/offsets": {"to:orders:0": "0"},
    "/groups/billing/delete": {"name": "billing"},
    "/transactions/abort/none": {"name": "none"},
    "/transactions/hanging/none": {"name": "none", "partition": "0", "from": "0"},
}
"""Every form that changes a cluster."""
