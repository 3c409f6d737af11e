"""Quotas of clients: how many bytes a second they may produce and fetch, and how long they wait.

`rate` measures, `limits` finds the quota of a client, `throttle` decides how long a client waits.
Pure cores: the time is an argument.
"""
