"""What a secured broker refuses: one table of clients that do one thing wrong, in a broker that has
a listener for each."""
