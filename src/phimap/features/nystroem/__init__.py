"""Nystroem features, which are based on landmarks: selected rows of the data."""
