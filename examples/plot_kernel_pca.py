"""
Kernel PCA through features
===========================

Whatever scikit-learn does with linear features, it does with a kernel once the data have passed through a feature map.
Principal components of the features are kernel principal components, at a cost that is linear in the rows: the exact
method needs all n x n kernel values.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA
from sklearn.pipeline import make_pipeline

import phimap as pm

X, y = load_digits(return_X_y=True)
X = X / 16
kernel = pm.kernels.Gaussian(length_scale=2.5)

# %%
# The exact components, and those of 4,096 features.

exact = KernelPCA(2, kernel="precomputed").fit_transform(kernel(X))
mapped = make_pipeline(pm.FourierFeatures(kernel, 4096, random_state=0), PCA(2, random_state=0)).fit_transform(X)

# %%
# Components are known up to their sign; here is how far the two agree.

mapped *= np.sign(np.sum(exact * mapped, axis=0))
for number, (a, b) in enumerate(zip(exact.T, mapped.T, strict=True), start=1):
    print(f"component {number}: correlation {np.corrcoef(a, b)[0, 1]:.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharex=True, sharey=True, layout="constrained")
for ax, points, title in zip(axes, (exact, mapped), ("exact kernel", "4,096 features"), strict=True):
    dots = ax.scatter(points[:, 0], points[:, 1], c=y, cmap="tab10", s=5)
    ax.set(xlabel="component 1", ylabel="component 2", title=title)
fig.legend(*dots.legend_elements(), title="digit", loc="outside right center")
plt.show()
