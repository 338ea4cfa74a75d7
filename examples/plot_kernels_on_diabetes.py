"""
Which kernel? A regression on tabular data
==========================================

One learner, five kernels, the same protocol: mean over ten cross-validation folds. The regularisation chooses itself,
by the leave-one-out error on so few rows, and the length scale is the median distance: nothing is tuned.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import phimap as pm

X, y = load_diabetes(return_X_y=True, scaled=False)
folds = KFold(10, shuffle=True, random_state=0)

# %%
# A linear model is the bar to pass.

models = {"linear": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))}
models |= {
    kernel: pm.KernelRegressor(kernel, 512, length_scale="median", metric=None, random_state=0)
    for kernel in ("gaussian", "matern", "laplacian", "arccosine", "ntk")
}
scores = {name: cross_val_score(model, X, y, cv=folds) for name, model in models.items()}
for name, score in scores.items():
    print(f"{name:10s} R^2 = {score.mean():.3f} +- {score.std() / np.sqrt(len(score)):.3f}")

# %%
# With 442 rows the kernels differ by less than the folds do: an error bar is two standard errors.

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.errorbar(
    list(scores),
    [score.mean() for score in scores.values()],
    yerr=[2 * score.std() / np.sqrt(len(score)) for score in scores.values()],
    fmt="o",
    capsize=3,
)
ax.set(ylabel="$R^2$ on held-out folds", title="Disease progression of diabetes patients")
plt.show()
