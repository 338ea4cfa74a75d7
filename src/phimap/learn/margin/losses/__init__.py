"""Losses of scores, one a file."""
