"""Losses other than squared errors, minimised by preconditioned gradients over streams."""
