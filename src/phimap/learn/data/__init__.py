"""What a learner takes from a stream of batches: scales, samples of the rows, features."""
