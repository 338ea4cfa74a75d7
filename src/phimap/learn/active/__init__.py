"""Active learning: selection of the rows to label, by the kernel alone, without labels."""
