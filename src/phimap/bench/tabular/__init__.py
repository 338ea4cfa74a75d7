"""Regression and classification of tables, ours beside boosting, nearest neighbours and exact kernel methods."""
