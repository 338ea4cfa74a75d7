"""Losses other than squared errors. Preconditioned gradients minimise them over streams."""
