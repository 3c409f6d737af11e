"""The fluent interface of an app: its calls build a plan."""
