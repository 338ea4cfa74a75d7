"""
Clustering through features
===========================

k-means looks for round clusters. On features of a narrow kernel it finds clusters of other shapes, and it needs no
matrix of all pairs: kernel k-means and spectral clustering with the exact kernel keep n x n numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

import phimap as pm

SETS = {
    "moons": make_moons(2000, noise=0.06, random_state=0),
    "circles": make_circles(2000, factor=0.5, noise=0.05, random_state=0),
}

# %%
# Spectral clustering is k-means on the leading eigenvectors of the kernel matrix, divided by its row sums. With
# features Z the row sums are ``Z @ Z.sum(axis=0)``, and the eigenvectors are singular vectors of the scaled Z: the work
# is linear in the rows. The leading eigenvalues are close to each other, so that the features must be exact: landmarks
# are, in two dimensions, where random features would have to be many thousands.


def spectral(X, n_clusters, length_scale):
    """Labels by the leading directions of normalised features."""
    Z = pm.NystroemFeatures(pm.kernels.Gaussian(length_scale), 200, random_state=0).fit_transform(X)
    sums = np.maximum(Z @ Z.sum(axis=0), 1e-3)
    vectors, _, _ = np.linalg.svd(Z / np.sqrt(sums)[:, None], full_matrices=False)
    return KMeans(n_clusters, n_init=10, random_state=0).fit_predict(normalize(vectors[:, :n_clusters]))


# %%
# The adjusted Rand index is 1 where clusters are those that made the data, and about 0 for clusters by chance.

fig, axes = plt.subplots(2, 2, figsize=(8, 7), layout="constrained")
for row, (name, (X, y)) in zip(axes, SETS.items(), strict=True):
    labels = {
        "k-means": KMeans(2, n_init=10, random_state=0).fit_predict(X),
        "200 features": spectral(X, 2, length_scale=0.1),
    }
    for ax, (method, found) in zip(row, labels.items(), strict=True):
        index = adjusted_rand_score(y, found)
        print(f"{name}, {method}: adjusted Rand index {index:.2f}")
        ax.scatter(*X.T, c=found, cmap="coolwarm", s=4)
        ax.set(title=f"{name}, {method}: {index:.2f}", aspect="equal", xticks=[], yticks=[])
plt.show()
