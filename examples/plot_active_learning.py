"""
Which rows should be labelled?
==============================

Pictures are there for nothing, labels are not: somebody has to look at each picture. `GreedyDesign` says which pictures
to show, before any label is known. It picks the picture that leaves the least variance of the kernel model, again and
again.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import phimap as pm

plt.style.use("tableau-colorblind10")
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, test_size=500, random_state=0)
feature_map = pm.NTKFeatures(depth=1, n_components=1024, random_state=0)
ALPHA = 0.1

# %%
# The design is made once. Its first ten rows are the design of ten rows, and so on.

design = pm.GreedyDesign(feature_map, n_select=200, alpha=ALPHA).select(X)
orders = {"greedy": [design], "random": [np.random.default_rng(seed).permutation(len(X)) for seed in range(10)]}

# %%
# Labels of the chosen pictures teach a ridge regression on the same features. Random choices are drawn ten times. A
# draw without some digit cannot name it: that is a part of what a design gains.

numbers = [10, 20, 30, 50, 100, 200]


def error(chosen):
    """Share of wrong test digits once the chosen rows have labels."""
    model = pm.KernelClassifier(feature_map, alpha=ALPHA, standardize=None).fit(X[chosen], y[chosen])
    return 1 - model.score(X_test, y_test)


errors = {
    name: np.array([[error(order[:number]) for number in numbers] for order in drawn]) for name, drawn in orders.items()
}
for number, greedy, random in zip(numbers, errors["greedy"][0], errors["random"].mean(axis=0), strict=True):
    print(f"{number:3d} labels: {100 * greedy:.1f} % wrong, with random ones {100 * random:.1f} %")
print("distinct digits among the first ten:", len(set(y[design[:10]])))

# %%
# Look at how far to the right the upper curve has to go for the same error: these are the labels saved. Below are the
# first ten pictures, in the order in which they are asked for. A design looks for what is unlike the rest. In a table
# with broken rows it would therefore ask for these first: clean the table before.

fig = plt.figure(figsize=(7, 4.6), layout="constrained")
upper, lower = fig.subfigures(2, 1, height_ratios=[4, 1])
ax = upper.subplots()
low, middle, high = np.quantile(errors["random"], [0, 0.5, 1], axis=0)
ax.fill_between(numbers, low, high, color="C1", alpha=0.25, linewidth=0)
ax.plot(numbers, middle, marker="s", color="C1", label="ten random choices: median and range")
ax.plot(numbers, errors["greedy"][0], marker="o", color="C0", label="greedy design")
ax.set(xscale="log", xticks=numbers, xticklabels=numbers, xlabel="labels", ylabel="share of wrong test digits")
ax.minorticks_off()
ax.legend()
for axis, row in zip(lower.subplots(1, 10), design[:10], strict=True):
    axis.imshow(X[row].reshape(8, 8), cmap="gray_r")
    axis.set_axis_off()
plt.show()
