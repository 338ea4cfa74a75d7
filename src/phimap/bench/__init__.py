"""The papers' experiments, ours beside theirs: each a module with `run`."""

#: The experiments that ``phimap bench`` knows, and what they reproduce.
EXPERIMENTS = {
    "approximation": "Liu et al. (2021), Section 6.1 and Table 7: error of every projection",
    "classification": "Liu et al. (2021), Section 6.1: test accuracy on every projection's features",
    "double-descent": "Liu et al. (2021), Figure 5: errors as the number of features passes that of rows",
}
