"""Features of the neural tangent kernels of convolutional networks."""
