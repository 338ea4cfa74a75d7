"""Learners that store coefficients alone. They draw directions anew, block by block, whenever these are needed."""
