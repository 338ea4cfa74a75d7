"""Which rows to label: the kernel alone chooses designs."""
