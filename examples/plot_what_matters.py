"""
Which columns matter, and how
=============================

A model that predicts well is half of the answer. Doctors ask what it looks at. The learned metric gives each column a
share, and partial dependence draws the curve that the model has found.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.inspection import PartialDependenceDisplay
from sklearn.model_selection import cross_val_score

import phimap as pm

plt.style.use("tableau-colorblind10")
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X.rename(columns={"bp": "blood pressure", "s5": "log triglycerides", "s3": "HDL", "s6": "glucose"})

# %%
# Beside each column we put a copy with its values in random order. The copies cannot matter: their shares tell how
# large a share is by chance.

rng = np.random.default_rng(0)
shuffled = X.apply(rng.permutation).add_prefix("shuffled ")
table = X.join(shuffled)
model = pm.KernelRegressor(metric="diagonal", random_state=0).fit(table, y)
print(model.kernel_)
shares = dict(zip(table.columns, model.relevances_, strict=True))
for name in sorted(X.columns, key=shares.get, reverse=True):
    print(f"{name:18s} {100 * shares[name]:5.1f} %, its shuffled copy {100 * shares[f'shuffled {name}']:4.1f} %")

# %%
# The metric is there for the prediction, too: it gains where many columns are of no use, and little where all are of
# some.

for name, of in {"the ten columns": X, "with the copies": table}.items():
    for metric in ("diagonal", None):
        found = pm.KernelRegressor("gaussian", metric=metric, effort="fast", random_state=0)
        print(f"{name}, metric={metric}: R^2 = {cross_val_score(found, of, y, cv=5).mean():.3f}")

# %%
# A share says how strongly the model changes along a column; it has no sign. The curves have one. They are means over
# the patients in which one column is set to a value, and scikit-learn draws them for any estimator. Look at the slope:
# of two patients who differ in nothing else, the one with more body mass gets worse. That is what the model learned of
# 442 patients, not what would happen to one who loses weight.

fig = plt.figure(figsize=(8, 4.2), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 1.5])
ax = left.subplots()
order = sorted(X.columns, key=shares.get)
ax.barh(order, [shares[name] for name in order], label="column")
ax.barh(order, [shares[f"shuffled {name}"] for name in order], height=0.3, label="its shuffled copy")
ax.set(xlabel="share in the metric")
ax.legend(loc="lower right")
leading = order[:-5:-1]
PartialDependenceDisplay.from_estimator(
    model, table, leading, grid_resolution=25, ax=right.subplots(2, 2, sharey=True).ravel()
)
plt.show()
