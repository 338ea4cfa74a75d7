"""Features for functions with jumps: indicators of the cells of random grids and of the leaves of random trees."""
