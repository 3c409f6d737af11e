"""What configs written for Java mean: its regular expressions, its date patterns, its texts."""
