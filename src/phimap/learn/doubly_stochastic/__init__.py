"""Learners that store coefficients alone: directions are drawn anew, block by block, whenever they are needed."""
