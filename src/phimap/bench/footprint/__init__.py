"""The experiments on accuracy against the bytes and the seconds that features take."""
