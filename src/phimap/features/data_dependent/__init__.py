"""Feature maps that depend on the data: leverage scores, weights learned for a pool of frequencies, compression."""
