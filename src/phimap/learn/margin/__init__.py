"""Losses of classification, minimised by preconditioned gradients over streams."""
