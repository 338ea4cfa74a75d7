"""
Many machines, one model
========================

Eight hospitals have patients, and none may send them away. A linear model on features needs sums over rows alone. So
each hospital forms its sums, the sums are added, and the model is the one that all rows together would have given. Dask
does the same for tables that lie on the machines of a cluster.
"""

import copy

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import phimap as pm

plt.style.use("tableau-colorblind10")
X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(np.log(X + 0.01), y, test_size=209, random_state=0)
hospitals = np.array_split(np.arange(len(X)), 8)
WIDTH = 128

# %%
# All must use the same features. The first hospital fits the map to its rows and sends it round. ``deepcopy`` stands
# for the way over a network; `save` and `load` write the same to a file.

MODEL = {"alpha": 0.1, "length_scale": "median", "metric": None, "random_state": 0}
first = pm.KernelClassifier("gaussian", WIDTH, **MODEL).partial_fit(X[hospitals[0]], y[hospitals[0]], classes=[0, 1])
copies = [copy.deepcopy(first) for _ in hospitals]
for model, rows in zip(copies[1:], hospitals[1:], strict=True):
    model.partial_fit(X[rows], y[rows])

# %%
# ``shared=first`` says which rows both models have seen, so that they count once.

merged = copies[0]
alone, together = [merged.score(X_test, y_test)], []
for model, rows in zip(copies[1:], hospitals[1:], strict=True):
    own = pm.KernelClassifier("gaussian", WIDTH, **MODEL).fit(X[rows], y[rows])
    alone.append(own.score(X_test, y_test))
    merged.merge(model, shared=first)
    together.append(merged.score(X_test, y_test))
print(f"alone: {100 * min(alone):.1f} to {100 * max(alone):.1f} % right; together {100 * together[-1]:.1f} %")

# %%
# One process that sees all rows, one hospital after the other, gives the same model.

one = copy.deepcopy(first)
for rows in hospitals[1:]:
    one.partial_fit(X[rows], y[rows])
difference = one.decision_function(X_test) - merged.decision_function(X_test)
print(f"largest difference of decisions: {np.abs(difference).max():.1e}")

# %%
# Dask arrays go to ``fit`` as they are. Blocks stay where they are, and their sums go up a tree. Without a cluster the
# threads of this process do the work; with ``distributed.Client("tcp://scheduler:8786")`` its workers do.

blocks = da.from_array(X, chunks=(45, -1)), da.from_array(y, chunks=45)
spread = pm.KernelClassifier("gaussian", WIDTH, **MODEL).fit(*blocks)
whole = pm.KernelClassifier("gaussian", WIDTH, **MODEL).fit(X, y)
print(f"Dask: {100 * spread.score(X_test, y_test):.1f} %, one process: {100 * whole.score(X_test, y_test):.1f} %")
print("a Dask array, nothing computed yet:", spread.predict(blocks[0]))

# %%
# Look at how the line leaves the points: no hospital alone knows what all know together. One test patient makes half a
# percent, so that the last steps mean little. What travels is a triangle of numbers, as large for a million patients as
# for 45. The search of a kernel is not merged: it looks at the rows of the first hospital, which should be typical.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(range(1, 9), alone, "s", color="C1", label="each hospital alone")
ax.plot(range(1, 9), [alone[0], *together], "o-", color="C0", label="merged up to here")
ax.axhline(whole.score(X_test, y_test), color="C3", linestyle="--", label="all rows in one place")
ax.set(xlabel="hospital", ylabel="share of right diagnoses", xticks=range(1, 9))
ax.legend(loc="lower right")
plt.show()
