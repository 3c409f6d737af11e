"""What runs connectors and tasks on this machine: threads for connectors, processes for tasks.

It does what the herder decides and tells it what became of that; it decides nothing itself.
"""
