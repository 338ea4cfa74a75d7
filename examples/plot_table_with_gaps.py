"""
A table with text, categories and empty cells
=============================================

Real tables have names, categories, dates and gaps. `KernelRegressor` takes a data frame of pandas as it is: no
pipeline, no imputation. The table has 406 cars of 1970 to 1982; the question is how far they go with a gallon.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_score
from vega_datasets import data

import phimap as pm

plt.style.use("tableau-colorblind10")
cars = data.cars().dropna(subset="Miles_per_Gallon", ignore_index=True)
y = cars.pop("Miles_per_Gallon")
print(cars.head(3).to_string())

# %%
# What has become of the columns stands in the encoder. It found text, a category, a date and gaps by itself.

model = pm.KernelRegressor(random_state=0).fit(cars, y)
for column in model.encoder_.summary_:
    print(f"{column.name:15s} {column.kind:9s} -> {column.n_columns} columns, {column.n_missing} missing")

# %%
# How much of the fit is due to the columns that are no numbers? And what if more cells were empty? We delete cells at
# random, in training rows and test rows alike. Boosting of trees treats gaps and categories itself, and gets the date
# as a number; it has no use for the names.

numbers = cars.select_dtypes("number")
for_trees = numbers.assign(Origin=cars["Origin"].astype("category"), Year=cars["Year"].dt.year)
folds = KFold(5, shuffle=True, random_state=0)


def rmse(model, table, share_missing):
    """Root mean squared error over five folds, with a share of the cells deleted."""
    deleted = np.random.default_rng(0).random(table.shape) < share_missing
    scores = cross_val_score(model, table.mask(deleted), y, cv=folds, scoring="neg_mean_squared_error")
    return np.sqrt(-scores.mean())


shares = [0, 0.15, 0.3]
fixed = pm.KernelRegressor("matern", metric="diagonal", effort="fast", random_state=0)
models = {
    "all columns": (fixed, cars),
    "numbers alone": (fixed, numbers),
    "boosting": (HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0), for_trees),
}
errors = {name: [rmse(*of, share) for share in shares] for name, of in models.items()}
for name, values in errors.items():
    print(f"{name:14s}" + "  ".join(f"{value:.2f}" for value in values))

# %%
# Look at the left end: the columns that are no numbers save nearly a third of the error. The bars tell which of them
# do: the year most of all. Then look at the slope: nothing breaks as cells vanish. Boosting is as good on the whole
# table, and better where many cells are gone: a tree sends them to the side that suits, an encoder puts the median.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for (name, values), marker in zip(errors.items(), "osD", strict=True):
    left.plot(shares, values, marker=marker, label=name)
left.set(xticks=shares, xticklabels=[f"{100 * share:.0f} %" for share in shares])
left.set(xlabel="cells deleted", ylabel="error, miles per gallon", ylim=(0, None))
left.legend()
order = np.argsort(model.relevances_)
right.barh(np.array(model.feature_names_in_)[order], model.relevances_[order])
right.set(xlabel="share in the learned metric")
plt.show()
