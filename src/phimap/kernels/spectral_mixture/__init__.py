"""Mixtures of modulated Gaussian kernels: values, spectral law, and fits that optimise a likelihood by gradients."""
