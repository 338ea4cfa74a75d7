"""Mixtures of modulated Gaussian kernels: values, spectral law, and fits by gradients of a likelihood."""
