"""Nystroem features, based on landmarks: selected rows of the data."""
