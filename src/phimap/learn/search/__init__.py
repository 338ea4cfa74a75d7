"""What a learner chooses from the data before it fits: the kernel, its width, its map."""
