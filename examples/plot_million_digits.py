"""
A million rows that never are in memory
=======================================

The digits of scikit-learn are 1,797 pictures of 8 x 8 pixels. A picture that is moved by a pixel, blurred and dimmed
shows the same digit. So there are as many pictures as one likes: here a million of them, in files of Parquet. The model
is fitted from the files, batch by batch.
"""

import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import phimap as pm
from phimap.io import open_table

plt.style.use("tableau-colorblind10")
images, y = load_digits().images, load_digits().target
train, test, y_train, y_test = train_test_split(images, y, test_size=450, random_state=0)

# %%
# Test pictures are changed in the same way, but come from digits that no training picture was made of.


def changed(images, y, n_rows, rng):
    """Random pictures, moved by up to a pixel, blurred and dimmed: bytes of shape (n_rows, 64), and their digits."""
    blurred = np.stack([gaussian_filter(images, (0, width, width)) for width in (0, 0.4, 0.8)])
    padded = np.pad(blurred, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = np.stack([padded[:, :, i : i + 8, j : j + 8] for i in range(3) for j in range(3)])
    rows = rng.integers(len(y), size=n_rows)
    found = moved[rng.integers(9, size=n_rows), rng.integers(3, size=n_rows), rows].reshape(n_rows, 64)
    return (found * rng.uniform(8, 15, size=(n_rows, 1))).astype(np.uint8), y[rows]


rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()
for part in range(20):
    pixels, digits = changed(train, y_train, 50_000, rng)
    columns = {f"pixel{j}": pixels[:, j] for j in range(64)} | {"digit": digits}
    pq.write_table(pa.table(columns), Path(folder.name, f"part-{part:02}.parquet"))
X_test, digits_test = changed(test, y_test, 10_000, rng)
X_test = X_test.astype(np.float32)

# %%
# ``open_table`` reads nothing yet. Learners go through what it gives as often as they need, twice here. Beside the fit
# a thread notes how much memory the process holds.

WIDTH = 1024
noted = []


def note_memory(done):
    """Every 50 milliseconds: the time and the memory of the process."""
    while not done.wait(0.05):
        noted.append((time.perf_counter(), psutil.Process().memory_info().rss))


def fitted(rows):
    """A model of the rows: a Gaussian kernel of the median width, nothing searched."""
    model = pm.KernelClassifier(
        "gaussian", WIDTH, length_scale="median", metric=None, standardize="global", random_state=0
    )
    return model.fit_batches(rows)


models = {
    len(y_train): fitted([(np.float32(15 * train.reshape(-1, 64)), y_train)]),
    50_000: fitted(open_table(Path(folder.name, "part-00.parquet"), "digit")),
}
done = threading.Event()
thread = threading.Thread(target=note_memory, args=(done,))
thread.start()
start = time.perf_counter()
models[1_000_000] = fitted(open_table(folder.name, "digit"))
seconds = time.perf_counter() - start
done.set()
thread.join()
errors = {rows: 1 - model.score(X_test, digits_test) for rows, model in models.items()}
for rows, error in errors.items():
    print(f"{rows:9,} training rows: {100 * error:.1f} % of the changed test pictures are wrong")
times, memory = np.array(noted).T
print(f"The last fit took {seconds:.0f} s, and at most {(memory.max() - memory[0]) / 1e6:.0f} MB more than before.")
folder.cleanup()

# %%
# Look at the height of the curve on the left: it stays far below the dashed line, which is what the features of all
# rows would take at once. It would be as low for a hundred times as many rows. On the right, the changed pictures pay:
# the unchanged digits teach little about moved ones. From the second point to the third little is gained: by then the
# features limit the model, not its rows. Twice the width errs less, in four times the time.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.plot(times - times[0], (memory - memory[0]) / 1e9)
left.axhline(1e6 * WIDTH * 4 / 1e9, color="C3", linestyle="--")
left.annotate("all features at once", (0, 1e6 * WIDTH * 4 / 1e9), (4, -13), textcoords="offset points")
left.set(xlabel="seconds of the fit", ylabel="memory, GB above the start", ylim=(0, 4.5), title="A million rows")
right.loglog(list(errors), list(errors.values()), marker="o")
for rows, error in errors.items():
    right.annotate(f"{100 * error:.1f} %", (rows, error), (6, 5), textcoords="offset points")
right.set(xlabel="training rows", ylabel="share of wrong digits", title="Changed test pictures")
right.set(yticks=[0.05, 0.1, 0.2, 0.5], yticklabels=["5 %", "10 %", "20 %", "50 %"])
right.minorticks_off()
right.margins(x=0.25, y=0.2)
plt.show()
