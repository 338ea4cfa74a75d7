"""What a learner takes from a stream of batches: scales, rows that are kept, blocks of features and their sums."""
