"""Which rows to label: designs chosen by the kernel alone."""
