"""Features from landmarks: rows of the data that stand for all."""
