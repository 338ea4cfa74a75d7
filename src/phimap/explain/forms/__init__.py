"""Functions whose Shapley values have a closed form: sums of products over players. `registry` finds them in models."""
