"""Java's regular expressions, date patterns and texts, for configs that were written for Java."""
