"""
Error against width
===================

The error of a random feature map falls like one over the root of its width, whatever the data. How the directions are
drawn decides the constant: orthogonal directions start lower and cost nothing more.
"""

# %%
# The kernel is Gaussian, as wide as the median distance between the images.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

import phimap as pm

X = load_digits().data[:400] / 16
length_scale = float(np.median(pairwise_distances(X)))
kernel = pm.kernels.Gaussian(length_scale=length_scale)

# %%
# For every projection and width: the relative error of the kernel matrix, averaged over a few seeds.

widths = 2 ** np.arange(6, 13)
seeds = range(3)
errors = {
    projection: [
        np.mean(
            [
                pm.metrics.relative_error(
                    pm.FourierFeatures(kernel, int(width), projection=projection, random_state=seed), X, center=True
                )
                for seed in seeds
            ]
        )
        for width in widths
    ]
    for projection in ("gaussian", "orthogonal", "sorf")
}

# %%
# The dashed line has slope -1/2.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for projection, error in errors.items():
    ax.loglog(widths, error, marker="o", label=projection)
ax.loglog(widths, errors["gaussian"][0] * np.sqrt(widths[0] / widths), "k--", linewidth=1, label="slope -1/2")
ax.set(xlabel="features", ylabel="relative error, centred", title="Gaussian kernel on 8 x 8 digits")
ax.legend()
plt.show()
