"""Active learning: the rows to label, selected by the kernel without any labels."""
