"""Learners that store coefficients only. Random directions are drawn again, block by block, whenever needed."""
