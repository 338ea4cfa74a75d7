"""Learners that store only coefficients. Random directions are drawn again, block by block, when they are needed."""
