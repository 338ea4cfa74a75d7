"""Losses of scores, one in each file."""
