"""A real broker process that is killed again and again under load, held to what it promised."""
