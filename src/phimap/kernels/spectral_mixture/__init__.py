"""Mixtures of modulated Gaussian kernels: values, law, and fits by gradients of a likelihood."""
