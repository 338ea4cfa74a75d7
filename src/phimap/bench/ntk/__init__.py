"""The experiments on the maps of the neural tangent kernel of fully connected networks."""
