"""
Exact Shapley values, beside shap and boosting
==============================================

What does each column add to a prediction? For kernel models shap samples. ``pm.explain.shapley_values`` has the same
values in closed form. Boosted trees have them, too, by TreeSHAP. The diabetes data of scikit-learn serve all. shap and
LightGBM are left out where they are not installed.
"""

import time
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import phimap as pm

plt.style.use("tableau-colorblind10")
frame, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, y = frame.to_numpy(), y.to_numpy()
rows, background = X[:10], X[100:150]

# %%
# A Gaussian kernel with 512 Fourier features. Values and base value add up to the prediction.

model = pm.KernelRegressor("gaussian", 512, metric=None, random_state=0).fit(X, y)
start = time.perf_counter()
exact = pm.explain.shapley_values(model, rows, background)
seconds = {"phimap, exact": time.perf_counter() - start}
found = {"phimap, exact": exact.values}
print(np.abs(exact.values.sum(axis=1) + exact.base_values - model.predict(rows)).max())

# %%
# shap explains the same model by sampling. What differs is its error.

if find_spec("shap"):
    import shap

    start = time.perf_counter()
    explainer = shap.PermutationExplainer(model.predict, shap.maskers.Independent(background, 50), seed=0)
    found["PermutationExplainer"] = explainer(rows, silent=True).values
    seconds["PermutationExplainer"] = time.perf_counter() - start
    start = time.perf_counter()
    explainer = shap.KernelExplainer(model.predict, background, seed=0)
    found["KernelExplainer"] = explainer.shap_values(rows, nsamples=200, silent=True)
    seconds["KernelExplainer"] = time.perf_counter() - start

# %%
# Boosted trees are another model, and their values answer for that model.

if find_spec("lightgbm") and find_spec("shap"):
    import lightgbm

    trees = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, random_state=0).fit(X, y)
    start = time.perf_counter()
    explainer = shap.TreeExplainer(trees, background, feature_perturbation="interventional")
    found["TreeSHAP, boosting"] = explainer.shap_values(rows)
    seconds["TreeSHAP, boosting"] = time.perf_counter() - start

for name, values in found.items():
    error = np.abs(values - exact.values).max()
    print(f"{name:24}{seconds[name]:8.2f} s   largest difference from the exact values {error:.2g}")

# %%
# The mean absolute value of each column. Body mass and a blood serum measurement lead in both models.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
places, height = np.arange(X.shape[1]), 0.8 / len(found)
for number, (name, values) in enumerate(found.items()):
    axes.barh(places + number * height, np.abs(values).mean(axis=0), height=height, label=name)
axes.set_yticks(places + 0.4 - height / 2, frame.columns)
axes.set(xlabel="mean absolute Shapley value")
axes.legend()
plt.show()
