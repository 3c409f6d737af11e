"""The fluent interface: its calls write down a plan."""
