"""
A kernel of one's own
=====================

What is known about the data belongs into the kernel. The weather of Seattle has a period of one year, and no kernel of
distances knows that: the first of January lies far from the first of January a year before. A kernel that knows it
takes ten lines. It then works with feature maps, learners and the arithmetic of kernels like any other.
"""

import matplotlib.pyplot as plt
import numpy as np
from vega_datasets import data

import phimap as pm
from phimap.kernels import Gaussian, Kernel

plt.style.use("tableau-colorblind10")


class Periodic(Kernel):
    """exp(-2 sin^2(pi (x - y) / period) / length_scale^2), of one column."""

    def __init__(self, period=1.0, length_scale=1.0):
        self.period = period
        self.length_scale = length_scale

    def _check_parameters(self, n_features):
        if n_features != 1 or self.period <= 0 or self.length_scale <= 0:
            raise ValueError("Periodic needs one column, a positive `period` and a positive `length_scale`.")

    def _evaluate(self, X, Y):
        return np.exp(-2 * (np.sin(np.pi * (X - Y.T) / self.period) / self.length_scale) ** 2)

    def _diagonal(self, X):
        return np.ones(len(X))


# %%
# The three hooks see checked rows in float64, tile by tile. The rest comes with the base class: symmetry, threads, the
# byte budget, float32. It is a kernel if its matrices have no negative eigenvalues; look at one.

year = np.arange(0.0, 365.25, 5)[:, None]
print(f"least eigenvalue: {np.linalg.eigvalsh(Periodic(365.25)(year)).min():.1e}")

# %%
# The kernel is learned on three years and asked for the fourth. Sums and multiples of kernels are kernels: here a
# season that comes back, and slow changes that do not. `NystroemFeatures` take any kernel. ``alpha`` is the variance of
# the noise over that of the function, and is given. Chosen by itself it would be the best for days between other days,
# and so small that a forecast of a year runs away.

weather = data.seattle_weather()
days, y = np.arange(len(weather), dtype=float)[:, None], weather["temp_max"].to_numpy()
past = (weather["date"].dt.year < 2015).to_numpy()
kernels = {
    "Gaussian of 30 days": Gaussian(30.0),
    "Gaussian of 3 years": Gaussian(1000.0),
    "season": Periodic(365.25),
    "season + slow changes": Periodic(365.25) + 0.1 * Gaussian(200.0),
}
forecasts = {}
for name, kernel in kernels.items():
    feature_map = pm.NystroemFeatures(kernel, 200, random_state=0)
    model = pm.KernelRegressor(feature_map, alpha=0.2, standardize=None).fit(days[past], y[past])
    forecasts[name] = model.predict(days)
    print(f"{name:22s} error of the year ahead {np.sqrt(np.mean((forecasts[name] - y)[~past] ** 2)):.2f} degrees")
no_better = np.sqrt(np.mean((y[past].mean() - y[~past]) ** 2))
print(f"{'mean of the past':22s} error of the year ahead {no_better:.2f} degrees")

# %%
# Look to the right of the dotted line, where no day was seen. Far from its data a kernel of distances knows the mean
# alone, and on the way there it swings out. The season goes on.

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
dates = weather["date"].to_numpy()
ax.plot(dates, y, ".", color="C2", markersize=3, label="warmest hour of a day")
for name, color in (("Gaussian of 30 days", "C1"), ("season + slow changes", "C0")):
    ax.plot(dates, forecasts[name], color=color, linewidth=2, label=name)
ax.axvline(dates[past][-1], color="C3", linestyle=":")
ax.set(ylabel="degrees Celsius", xlim=(dates[365], dates[-1]))
ax.legend(loc="upper left", fontsize="small")
plt.show()
