"""What `moldau doctor` makes of facts, and what it finds on this machine and at a cluster."""
