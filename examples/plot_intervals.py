"""
Prediction intervals, beside an exact Gaussian process
======================================================

Ridge regression on features is the mean of a Gaussian process, and the process also says how sure it is. ``predict(X,
return_std=True)`` gives both. The exact process of scikit-learn gives them at the cost of all pairs of rows. Four years
of the warmest hour of each day in Seattle are few enough for both.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from vega_datasets import data

import phimap as pm

plt.style.use("tableau-colorblind10")
weather = data.seattle_weather()
dates, y = weather["date"].to_numpy(), weather["temp_max"].to_numpy()

# %%
# A day is a point on the circle of the year: so the last of December lies beside the first of January.

angle = 2 * np.pi * np.arange(len(y)) / 365.25
X = np.column_stack([np.cos(angle), np.sin(angle)])

# %%
# Held out are a fifth of the days at random, and all of June to August 2014, for which only other years speak.

gap = (dates >= np.datetime64("2014-06-01")) & (dates < np.datetime64("2014-09-01"))
scattered = (np.random.default_rng(0).random(len(y)) < 0.2) & ~gap
train = ~(gap | scattered)

# %%
# `KernelRegressor` takes the best width of a Matern kernel by held-out error, and measures the noise by the errors of
# days that were left out in turn. The exact process climbs its likelihood.

found = {}
start = time.perf_counter()
model = pm.KernelRegressor("matern", 512, metric=None, random_state=0).fit(X[train], y[train])
found["512 features"] = (*model.predict(X, return_std=True), time.perf_counter() - start)
start = time.perf_counter()
kernel = ConstantKernel() * Matern(nu=1.5) + WhiteKernel()
exact = GaussianProcessRegressor(kernel, normalize_y=True).fit(X[train], y[train])
found["exact process"] = (*exact.predict(X, return_std=True), time.perf_counter() - start)

# %%
# An interval of 80 % should hold 80 % of the days. It does on scattered days.

for name, (mean, std, seconds) in found.items():
    rmse = np.sqrt(np.mean((mean - y)[scattered] ** 2))
    print(f"{name}: {seconds:.1f} s, error on scattered days {rmse:.2f} degrees")
    for share in (0.5, 0.8, 0.95):
        inside = np.abs(y - mean) <= norm.ppf(0.5 + share / 2) * std
        here, there = 100 * inside[scattered].mean(), 100 * inside[gap].mean()
        print(
            f"  intervals of {100 * share:.0f} % hold {here:.0f} % of the scattered days and {there:.0f} % of the gap"
        )
(_, ours, _), (_, theirs, _) = found.values()
print(f"ratio of the deviations on scattered days: {np.median(ours[scattered] / theirs[scattered]):.2f}")

# %%
# Look at the two bands: they are equally wide, although one process forms no matrix of all pairs of days. Ours took a
# shorter width, and its mean is a little wavier. Its cost grows with the rows, that of the exact one with their cube.
# Between the dotted lines fewer days are inside than should be: that summer was warm. An interval is true for days like
# those of the training, and does not know that a year differs.

fig, axes = plt.subplots(2, 1, figsize=(8, 5), sharex=True, sharey=True, layout="constrained")
for ax, (name, (mean, std, seconds)) in zip(axes, found.items(), strict=True):
    width = norm.ppf(0.9) * std
    ax.fill_between(dates, mean - width, mean + width, color="C0", alpha=0.3, linewidth=0)
    ax.plot(dates, mean, color="C0", label="mean")
    ax.plot(dates[train], y[train], ".", color="C3", markersize=3, label="training days")
    ax.plot(dates[~train], y[~train], "x", color="C1", markersize=4, label="held-out days")
    for end in dates[gap][[0, -1]]:
        ax.axvline(end, color="C3", linestyle=":", linewidth=1)
    ax.set(ylabel="degrees Celsius", title=f"{name}: intervals of 80 %, {seconds:.1f} s")
axes[0].set(xlim=(np.datetime64("2013-10-01"), np.datetime64("2015-07-01")))
axes[0].legend(loc="upper left", fontsize="small")
plt.show()
