"""
A trained network and its kernel
================================

A network that is infinitely wide, trained by small steps, is ridge regression with the neural tangent kernel. So the
kernel should be where networks go as they grow. It has no seed, no learning rate and no epochs.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor

import phimap as pm

# The networks stop after a number of epochs, as networks do.
warnings.simplefilter("ignore", ConvergenceWarning)
plt.style.use("tableau-colorblind10")
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split((X - X.mean()) / X.std(), y, train_size=400, random_state=0)

# %%
# Networks of one hidden layer of ReLU units learn one output for each digit by squared errors, as the kernel does. At
# each width there are five random starts.

targets = np.eye(10)[y]
widths = [16, 32, 64, 128, 256, 1024, 4096]
networks, seconds = np.empty((len(widths), 5)), np.empty((len(widths), 5))
for row, width in enumerate(widths):
    for seed in range(5):
        network = MLPRegressor(hidden_layer_sizes=(width,), max_iter=150, random_state=seed)
        start = time.perf_counter()
        found = network.fit(X, targets).predict(X_test).argmax(axis=1)
        networks[row, seed] = np.mean(found != y_test)
        seconds[row, seed] = time.perf_counter() - start

# %%
# The kernel of these networks, exact on so few rows: every row is a landmark.

start = time.perf_counter()
kernel = pm.KernelClassifier("ntk", metric=None, standardize=None, random_state=0).fit(X, y)
error = 1 - kernel.score(X_test, y_test)
spent = time.perf_counter() - start
print(f"kernel:                    {100 * error:.1f} % wrong in {spent:.2f} s")
for width, errors, times in zip(widths, networks, seconds, strict=True):
    print(
        f"network of {width:5,} units: {100 * errors.mean():.1f} % wrong on average, {100 * errors.min():.1f} to "
        f"{100 * errors.max():.1f} %, in {times.mean():.2f} s"
    )

# %%
# Look at the right end: as the networks grow, they come down to the line of the kernel, and their starts matter less.
# Here no width does better on average than the limit. Elsewhere some may: a network of finite width learns features,
# and a kernel does not. A learned metric gives some of that back.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(np.repeat(widths, 5), networks.ravel(), "o", color="C1", alpha=0.6, label="networks, five random starts")
ax.plot(widths, networks.mean(axis=1), color="C1", label="their mean")
ax.axhline(error, color="C0", linewidth=2, label="neural tangent kernel")
ax.set(xscale="log", yscale="log", xlabel="hidden units", ylabel="share of wrong test digits")
ax.set(xticks=widths, xticklabels=[f"{width:,}" for width in widths])
ticks = [0.02, 0.05, 0.1, 0.2, 0.5]
ax.set(yticks=ticks, yticklabels=[f"{100 * tick:g} %" for tick in ticks])
ax.minorticks_off()
ax.legend()
plt.show()
