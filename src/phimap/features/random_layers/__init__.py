"""Maps with one random layer: a nonlinear function of each random projection."""
