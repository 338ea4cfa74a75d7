"""Experiments on accuracy against the size of the features in bytes and the time in seconds."""
