"""What configs written for Java mean: its regular expressions and its date patterns."""
