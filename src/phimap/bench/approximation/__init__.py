"""The survey's experiment on the approximation of kernels: every projection on every data set."""
