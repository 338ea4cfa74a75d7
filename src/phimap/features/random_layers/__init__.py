"""Maps of one random layer: a nonlinearity of each projection, as in Fourier features."""
