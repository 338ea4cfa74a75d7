"""Feature maps that look at the data: leverage scores, weights of a pool, compression."""
