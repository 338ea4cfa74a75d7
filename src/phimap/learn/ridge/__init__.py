"""Ridge regression: what is kept of the rows, the choice of the regularisation, the solution."""
