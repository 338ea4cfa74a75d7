"""Features with few distinct values, which can be stored packed: ternary features, and features rounded to few bits."""
