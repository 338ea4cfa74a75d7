"""
Few pictures: a convolutional kernel
====================================

A kernel of pixels compares each pixel with the one at the same place. The convolutional tangent kernel compares
patches, wherever they are: it is the kernel of an infinitely wide convolutional network. That is worth most where
pictures with labels are few, or where they are not centred.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import phimap as pm

# Fifty pictures leave some pixels blank, and the Gaussian kernel then tells of pictures that use them.
warnings.filterwarnings("ignore", message=".*far outside.*")
plt.style.use("tableau-colorblind10")
images, y = load_digits().images.astype(np.float32) / 16, load_digits().target

# %%
# Every digit is put somewhere on a canvas of 12 x 12 pixels, as a camera would see it.

rng = np.random.default_rng(0)
canvas = np.zeros((len(y), 12, 12, 1), dtype=np.float32)
for picture, image, (i, j) in zip(canvas, images, rng.integers(5, size=(len(y), 2)), strict=True):
    picture[i : i + 8, j : j + 8, 0] = image
SETS = {"in the middle": images[..., None], "anywhere": canvas}

# %%
# `KernelClassifier` takes arrays of four axes as they are. For boosting the pixels are put in a row.


def rows(pictures):
    """One row of pixels for each picture."""
    return pictures.reshape(len(pictures), -1)


MODELS = {
    "convolutional tangent kernel": lambda: pm.KernelClassifier(
        pm.CNTKSketch(depth=3, n_components=1024, random_state=0), standardize="global"
    ),
    "Gaussian kernel": lambda: make_pipeline(
        FunctionTransformer(rows),
        pm.KernelClassifier("gaussian", 1024, metric=None, standardize="global", random_state=0),
    ),
    "boosting": lambda: make_pipeline(FunctionTransformer(rows), HistGradientBoostingClassifier(random_state=0)),
}
numbers = [50, 100, 200, 400]
errors = {(place, name): [] for place in SETS for name in MODELS}
seconds = dict.fromkeys(MODELS, 0.0)
for place, pictures in SETS.items():
    X, X_test, labels, labels_test = train_test_split(pictures, y, test_size=300, random_state=0)
    for name, make in MODELS.items():
        for number in numbers:
            start = time.perf_counter()
            model = make().fit(X[:number], labels[:number])
            errors[place, name].append(1 - model.score(X_test, labels_test))
            seconds[name] += time.perf_counter() - start
for (place, name), found in errors.items():
    print(f"{place:14s} {name:29s}" + "  ".join(f"{100 * error:5.1f} %" for error in found))
print("seconds of all fits and scores:", ", ".join(f"{name} {spent:.1f}" for name, spent in seconds.items()))

# %%
# Look at the distance between the curves: on centred digits it is small, and on moved ones it is large. There the
# convolutional kernel needs a fraction of the labels. It pays in seconds, which grow with the pixels and the pictures.
# A trained convolutional network catches up where there are many labels; the kernel has no epochs, no learning rate and
# one answer.

fig = plt.figure(figsize=(8, 4.6), layout="constrained")
upper, lower = fig.subfigures(2, 1, height_ratios=[4, 1])
for ax, place in zip(upper.subplots(1, 2, sharey=True), SETS, strict=True):
    for name, marker in zip(MODELS, "osD", strict=True):
        ax.plot(numbers, errors[place, name], marker=marker, label=name)
    ax.set(xscale="log", xticks=numbers, xticklabels=numbers, xlabel="labels", title=f"digits {place}", ylim=(0, 0.9))
    ax.minorticks_off()
    if place == "in the middle":
        ax.set(ylabel="share of wrong test digits")
        ax.legend(fontsize="small")
for ax, picture in zip(lower.subplots(1, 10), canvas[:10], strict=True):
    ax.imshow(picture[..., 0], cmap="gray_r")
    ax.set(xticks=[], yticks=[])
plt.show()
