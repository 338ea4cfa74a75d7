"""The papers' experiments, ours beside theirs: each a module with `run`, by the name ``phimap bench`` knows it by."""

#: Module of each experiment; imported when it runs.
EXPERIMENTS = {
    "approximation": "phimap.bench.approximation",
    "classification": "phimap.bench.approximation",
}
