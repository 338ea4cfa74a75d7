"""The experiment of the survey on the approximation of kernels: every projection on every set."""
