"""Maps of kernels with a power series. Some powers are represented exactly, and the others are sketched."""
