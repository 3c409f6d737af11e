"""What is published: wheels, source archives, and the list of what is in them (`make dist`)."""
