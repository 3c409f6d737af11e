"""The broker as a process: its commands, their settings, and the process from start to exit.

- `moldau broker start`   `broker_command`, which hands over to `process`
- `moldau storage`        `storage_command`
- a node's settings       `given`: read from files, the environment and the command line
"""
