"""Features of the neural tangent kernels of fully connected networks."""
