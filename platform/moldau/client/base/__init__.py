"""What every client stands on: its life, what its user gives, and what rooms have in common."""
