"""Maps of kernels with a power series: some powers are exact, the others are sketched."""
