"""The command line: finding commands, telling errors, exit codes."""
