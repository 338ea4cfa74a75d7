"""Maps of kernels with a power series: some powers are exact, and sketches carry the others."""
