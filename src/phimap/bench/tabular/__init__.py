"""Regression and classification of tables: our learners, boosting, nearest neighbours and exact kernel methods."""
