"""
Canonical correlations through features
=======================================

Two views of the same things are given: the upper and the lower halves of pictures of digits. Canonical correlation
analysis looks for one function of each view such that the two agree. Linear functions find what is linear; on features
of a kernel the functions are smooth ones, at a cost that is linear in the rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import phimap as pm

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
halves = slice(0, 32), slice(32, 64)

# %%
# Correlations between rich functions are high by chance. Both analyses therefore see the leading 32 components of a
# view, and are judged on rows that they have not seen.

N_COMPONENTS, N_FUNCTIONS = 32, 6


def views(make):
    """Training and test rows of both views, as components of what `make` gives."""
    found = []
    for half in halves:
        mapped = make_pipeline(*make(), PCA(N_COMPONENTS, random_state=0)).fit(X_train[:, half])
        found.append((mapped.transform(X_train[:, half]), mapped.transform(X_test[:, half])))
    return found


def correlations(make):
    """Correlations on test rows, and the functions of the first view there."""
    (first, first_test), (second, second_test) = views(make)
    a, b = CCA(N_FUNCTIONS, max_iter=2000).fit(first, second).transform(first_test, second_test)
    return np.array([np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(N_FUNCTIONS)]), a


ANALYSES = {
    "linear": lambda: (),
    "2,048 features": lambda: (pm.FourierFeatures(pm.kernels.Gaussian(1.5), 2048, random_state=0),),
}
found = {name: correlations(make) for name, make in ANALYSES.items()}
for name, (values, _) in found.items():
    print(f"{name}: held-out correlations " + ", ".join(f"{value:.2f}" for value in values))

# %%
fig, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for name, (values, _) in found.items():
    axes[0].plot(range(1, N_FUNCTIONS + 1), values, marker="o", label=name)
axes[0].set(xlabel="pair of functions", ylabel="correlation on held-out rows", ylim=(0, 1))
axes[0].legend()
for ax, (name, (_, points)) in zip(axes[1:], found.items(), strict=True):
    dots = ax.scatter(points[:, 0], points[:, 1], c=y_test, cmap="tab10", s=8)
    ax.set(title=f"upper halves, {name}", xlabel="function 1", ylabel="function 2")
fig.legend(*dots.legend_elements(), title="digit", loc="outside right center")
plt.show()
