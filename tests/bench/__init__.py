"""The bench harness itself, on fake clocks."""
