"""Features of few values, which can be kept packed: ternary features, and features rounded to some bits."""
