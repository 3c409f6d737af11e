"""The broker as a process: its commands, what they are told, and the life of the process.

- `moldau broker start`   `broker_command`, which hands over to `process`
- `moldau storage`        `storage_command`
- what a node is told     `given`: from files, the environment and the command line to settings
"""
