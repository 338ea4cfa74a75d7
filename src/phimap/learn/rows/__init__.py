"""Training rows: batches, passes over them, samples, validation rows and scaling."""
