"""Features of a few values, which can be kept packed."""
