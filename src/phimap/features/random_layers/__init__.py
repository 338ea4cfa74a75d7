"""Random layers: one nonlinearity of each projection."""
