"""Losses other than squared errors, and their minimisation over streams by preconditioned quasi-Newton steps."""
