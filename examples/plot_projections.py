"""
Which projection? Error against time
====================================

A random feature map multiplies by a random matrix, and there are many ways to draw one. Some err less, some are faster.
What counts is both together: the error that a given time buys.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

import phimap as pm

plt.style.use("tableau-colorblind10")

# %%
# The rows are patches of 16 x 16 pixels of a photograph of a temple: 256 columns. The kernel is Gaussian, as wide as
# the median distance.

picture = load_sample_image("china.jpg").mean(axis=2).astype(np.float32) / 255
X = extract_patches_2d(picture, (16, 16), max_patches=10_000, random_state=0).reshape(10_000, -1)
pairs = np.random.default_rng(0).integers(len(X), size=(1000, 2))
kernel = pm.kernels.Gaussian(float(np.median(np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1))))

# %%
# Times are those of mapping the 10,000 rows, the best of three. Errors are those of the kernel matrix of 1,000 rows,
# less its mean, as a learner with an intercept feels them: averages over three draws.


def seconds(feature_map):
    """Of mapping all rows, the best of three."""
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        feature_map.transform(X)
        spent.append(time.perf_counter() - start)
    return min(spent)


widths = [256, 512, 1024, 2048, 4096]
names = ["gaussian", "orthogonal", "qmc", "fastfood", "sorf", "auto"]
found = {}
for name in names:
    for width in widths:
        maps = [pm.FourierFeatures(kernel, width, projection=name, random_state=seed).fit(X) for seed in range(3)]
        error = np.mean([pm.metrics.relative_error(one, X, center=True) for one in maps])
        found[name, width] = seconds(maps[0]), error
for name in names:
    spent, error = found[name, widths[-1]]
    print(f"{name:10s} {widths[-1]:,} features: error {error:.4f} in {1e3 * spent:.0f} ms")

# %%
# Look for the curve that is lowest at a given time, not at a given width: points of one curve are widths. Orthogonal
# directions err less than independent ones at the same time. Fast transforms need no matrix: they save time where there
# are hundreds of columns, and next to nothing in ten. ``"auto"`` is the default.

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name, marker in zip(names, "osD^vP", strict=True):
    spent, error = np.transpose([found[name, width] for width in widths])
    bold = name == "auto"
    ax.loglog(1e3 * spent, error, marker=marker, label=name, linewidth=3 if bold else 1.5, zorder=3 if bold else 2)
ax.set(xlabel="milliseconds for 10,000 rows", ylabel="relative error of the kernel, centred")
for axis, ticks in ((ax.xaxis, [5, 10, 20, 50, 100, 200]), (ax.yaxis, [0.01, 0.02, 0.05, 0.1])):
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
ax.minorticks_off()
ax.legend(title="256 to 4,096 features")
plt.show()
