"""
Will it rain tomorrow, and how sure is that?
============================================

Who decides by a probability wants it to be true: of all days with a forecast of 30 % it should rain on 30 %. Four years
of the weather of Seattle tell whether it does.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from vega_datasets import data

import phimap as pm

plt.style.use("tableau-colorblind10")
weather = data.seattle_weather()
days = weather[["precipitation", "temp_max", "temp_min", "wind"]].assign(day=weather["date"].dt.day_of_year)[:-1]
rain = (weather["precipitation"] > 0).to_numpy()[1:]
print(f"{len(days):,} days, and rain after {100 * rain.mean():.0f} % of them")

# %%
# Every model forecasts each fifth of the days from the others, with its default settings. `KernelClassifier` minimises
# a squared loss, whose outputs are no probabilities: it learns from rows that it held out how sure it may be.

models = {
    "KernelClassifier": pm.KernelClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
}
folds = KFold(5, shuffle=True, random_state=0)
forecasts = {
    name: cross_val_predict(model, days, rain, cv=folds, method="predict_proba")[:, 1] for name, model in models.items()
}
for name, forecast in forecasts.items():
    print(
        f"{name:20s} log loss {log_loss(rain, forecast):.3f}, "
        f"days forecast right {100 * accuracy_score(rain, forecast > 0.5):.1f} %"
    )

# %%
# On the left, the diagonal is where forecasts are true. A curve that is flatter than the diagonal is too sure of
# itself: it says 90 % where it rains on 70 %. On the right are the forecasts themselves. Tomorrow's rain is hard to
# know, and a model that knows this seldom says more than 90 %.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for (name, forecast), marker in zip(forecasts.items(), "osD", strict=True):
    CalibrationDisplay.from_predictions(
        rain, forecast, n_bins=8, strategy="quantile", name=name, ax=left, marker=marker
    )
    right.hist(forecast, bins=20, range=(0, 1), histtype="step", linewidth=2, label=name)
left.set(xlabel="forecast", ylabel="share of days with rain", aspect="equal")
left.legend(fontsize="small")
right.set(xlabel="forecast", ylabel="days")
plt.show()
