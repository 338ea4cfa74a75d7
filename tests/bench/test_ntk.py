"""The experiments on neural tangent maps, on the set that ships with scikit-learn and on made-up files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import phimap as pm
from phimap._progress import Stages
from phimap.bench import datasets, uci
from phimap.bench.exact_ridge import feature_predictions, fit_predict, kernel_predictions, predictions
from phimap.bench.ntk import activations, classification, error, function, low_shot, mnist, regression, spectral
from phimap.bench.ntk import methods as ntk_methods
from phimap.bench.ntk.methods import METHODS, shared
from phimap.bench.options import BenchOptions
from phimap.cli.commands import app
from phimap.io import DataError
from phimap.kernels import NTK, Gaussian
from tests.support.rows import rows


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("digits", None)


@pytest.fixture
def collection(tmp_path):
    """A folder with a collection of three sets, one of them with rows of a separate test file, off their scale."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, n in (("disc", 120), ("moved", 140), ("statlog-australian-credit", 40)):
        X = rng.standard_normal((n, 2))
        val, bits = rng.integers(2, size=n).astype(np.uint8), rng.integers(16, size=n).astype(np.uint8)
        y = (X[:, 0] * X[:, 1] > 0).astype(np.int32)
        if name == "moved":
            val[100:], bits[100:], X[100:] = 2, 16, 1000.0
        arrays |= {f"{name}_X": X.astype(np.float32), f"{name}_y": y, f"{name}_val": val, f"{name}_test4": bits}
    np.savez(tmp_path / "uci121.npz", **arrays)
    return tmp_path


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_methods_have_nearly_the_width_asked_for(method, depth, digits):
    phi = METHODS[method](depth, 640, 64, 0).fit(digits.X)
    assert repr(phi.kernel_) == repr(NTK(depth))
    # A gradient is as wide as its network; the nearest one is within half a unit of it.
    least = 0.9 if method == "gradient" else 1.0
    assert least * 640 <= phi.transform(digits.X[:3]).shape[1] <= 640 / least


# Nystroem features of more columns than rows are exact here, and that is what is compared.
@pytest.mark.filterwarnings("ignore:.n_components.=1024 asks for as many landmarks")
def test_errors_fall_with_the_width_and_gradients_err_most(digits):
    methods = ["features", "layers", "gradient", "nystroem"]
    options = {"depths": (1,), "widths": (128, 1024), "n_rows": 100, "draws": range(3)}
    found = rows(error.run("digits", digits.X, methods, **options))
    assert len(found) == 24

    def mean(method: str, width: int) -> float:
        return float(np.mean([row.error for row in found if (row.method, row.width) == (method, width)]))

    for method in ("features", "layers"):
        assert mean(method, 1024) < 0.6 * mean(method, 128)
    assert mean("layers", 1024) < 0.3 * mean("gradient", 1024)
    assert mean("nystroem", 1024) < mean("layers", 1024)
    assert mean("features", 1024) < 0.5 * mean("layers", 1024)


def test_rows_have_norm_one(digits):
    X = np.vstack([digits.X, np.zeros(64)])
    np.testing.assert_allclose(np.linalg.norm(datasets.unit_rows(X), axis=1), [1.0] * len(digits.X) + [0.0], rtol=1e-6)


def test_gaussian_rows_keep_their_norms():
    rows = activations.read("gaussian", None, 300)
    assert rows.shape == (300, activations.COLUMNS)
    assert np.linalg.norm(rows, axis=1).mean() == pytest.approx(activations.COLUMNS**0.5, rel=0.02)


def test_more_features_are_better_conditioned(digits):
    found = rows(spectral.run(digits, list(spectral.METHODS), widths=(50, 400), n_rows=60, draws=range(4)))
    numbers = {
        (method, width): np.mean([r.condition_number for r in found if (r.method, r.width) == (method, width)])
        for method in spectral.METHODS
        for width in (50, 400)
    }
    assert all(numbers[method, 400] < numbers[method, 50] for method in spectral.METHODS)
    assert min(numbers.values()) > 1


def test_classifiers_of_digits(digits):
    found = rows(mnist.run(digits, ["features", "gradient", "exact"], widths=(512,), n_rows=400))
    accuracy = {row.method: row.accuracy for row in found}
    assert set(accuracy) == {"features", "gradient", "exact"}
    assert accuracy["exact"] > 93
    assert accuracy["exact"] - 3 < accuracy["features"] < accuracy["exact"] + 3
    assert accuracy["gradient"] < accuracy["features"]


def test_exact_ridge_is_ridge(rng):
    """Against scikit-learn on explicit features; alpha is in units of the mean diagonal."""
    X, X_test = rng.standard_normal((30, 4)), rng.standard_normal((5, 4))
    Y = rng.standard_normal((30, 2))
    for Z, Z_test in ((X, X_test), (np.hstack([X] * 10), np.hstack([X_test] * 10))):
        (found,) = feature_predictions(Z, Y, Z_test, (0.1,))
        alpha = 0.1 * np.square(Z).sum() / 30
        ridge = Ridge(alpha=alpha, fit_intercept=False).fit(Z, Y - Y.mean(axis=0))
        np.testing.assert_allclose(found, ridge.predict(Z_test) + Y.mean(axis=0), rtol=1e-8)
    everything = np.vstack([X, X_test])
    train = np.arange(35) < 30
    by_rows = predictions(NTK(2), X, Y, X_test, (1e-3,))[0]
    by_matrix = kernel_predictions(NTK(2)(everything), np.vstack([Y, Y[:5]]), train, ~train, (1e-3,))[0]
    np.testing.assert_allclose(by_rows, by_matrix, rtol=1e-8)


def test_regularisation_is_chosen(rng):
    """Noise wants much of it, a smooth function little."""
    X = rng.standard_normal((200, 2))
    noise = rng.standard_normal((200, 1))
    assert np.abs(fit_predict(Gaussian(1.0), X, noise, X, 0)).max() < 1.5
    smooth = np.sin(X[:, :1])
    assert np.abs(fit_predict(Gaussian(1.0), X, smooth, X, 0) - smooth).max() < 0.05


def test_regression_beats_the_mean():
    X, y = uci.load_regression("diabetes", None)
    found = rows(regression.run("diabetes", X, y, ["rbf", "rff", "ntk", "features"], width=256))
    assert len(found) == 4 * regression.FOLDS
    for method in ("rbf", "rff", "ntk", "features"):
        assert np.mean([row.mse for row in found if row.method == method]) < 0.65 * y.var()


def test_regression_sets_are_read(tmp_path):
    (tmp_path / "protein.csv.gz").write_bytes(b"")
    np.savez(tmp_path / "uci_regression.npz", bike_X=np.arange(34.0).reshape(2, 17), bike_y=np.arange(2.0))
    X, y = uci.load_regression("bike", tmp_path)
    # The last two columns add up to the target.
    assert X.shape == (2, 15)
    assert X.dtype == y.dtype == np.float64
    np.savetxt(tmp_path / "protein.csv.gz", [[3.0, 1, 2], [4.0, 5, 6]], delimiter=",", header="rmsd,f1,f2", comments="")
    X, y = uci.load_regression("protein", tmp_path)
    np.testing.assert_array_equal(X, [[1, 2], [5, 6]])
    np.testing.assert_array_equal(y, [3, 4])
    with pytest.raises(ValueError, match="must be one of protein"):
        uci.load_regression("nothing", tmp_path)
    with pytest.raises(DataError, match=r"no file .*regression_extra\.npz"):
        uci.load_regression("cpu_act", tmp_path)


def test_collection_leaves_out_what_cannot_be_used(collection):
    disc, moved = uci.load_collection(collection)
    assert [disc.name, moved.name] == ["disc", "moved"]
    assert len(moved.X) == 100
    assert np.abs(moved.X).max() < 10
    assert moved.tests.shape == (4, 100)
    with np.load(collection / "uci121.npz") as arrays:
        np.testing.assert_array_equal(moved.tests[2], arrays["moved_test4"][:100] & 4 > 0)
        np.testing.assert_array_equal(disc.validation, arrays["disc_val"] == 1)
    assert [data.name for data in uci.load_collection(collection, most_rows=100)] == ["moved"]
    assert [data.name for data in uci.load_collection(collection, ["statlog-australian-credit"])] != []
    with pytest.raises(ValueError, match="--sets must be among disc, moved"):
        uci.load_collection(collection, ["nothing"])


def test_depth_width_and_cost_are_tuned(collection):
    (data,) = uci.load_collection(collection, ["disc"])
    asked = {"depths": (1, 2), "widths": (10, 60)}
    found = {
        row.method: row for row in rows(classification.run(data, ["rbf", "ntk", "features", "polynomial"], **asked))
    }
    assert min(row.accuracy for row in found.values()) > 80
    # The sign of a product of two columns: no line tells it.
    assert found["polynomial"].choice.startswith(("degree 2", "degree 3"))
    assert any(f"m = {width}, C" in found["features"].choice for width in (10, 60))
    assert found["ntk"].choice.startswith(("depth 1, C", "depth 2, C"))
    assert abs(found["features"].accuracy - found["ntk"].accuracy) < 8


def test_other_classifiers_are_tuned(collection, monkeypatch):
    monkeypatch.setattr(ntk_methods, "ENSEMBLES", (20, 100))
    (data,) = uci.load_collection(collection, ["disc"])
    found = {row.method: row for row in rows(classification.run(data, ["forest", "adaboost", "neighbours"]))}
    assert min(found["forest"].accuracy, found["neighbours"].accuracy) > 75
    # Stumps of one column each cannot tell the sign of a product, however many they are.
    assert found["adaboost"].accuracy < 70
    assert found["forest"].choice in ("20 trees", "100 trees")
    assert 1 <= int(found["neighbours"].choice.removeprefix("k = ")) <= 20


def test_larger_costs_are_left_out_only_where_they_change_nothing(collection):
    """The best of all costs is found by those that are tried."""
    (data,) = uci.load_collection(collection, ["disc"])
    (row,) = rows(classification.run(data, ["rbf"]))
    candidates = classification._candidates("rbf", data, (1,), (10,), 0)
    accuracies = [
        classification._accuracy(model, K, data.y, ~data.validation, data.validation) for _, model, K in candidates
    ]
    assert row.validation == max(accuracies)


def test_the_default_classifier_sees_no_row_that_it_is_judged_on(collection, monkeypatch):
    (data,) = uci.load_collection(collection, ["disc"])
    fitted = []

    class Noted(pm.KernelClassifier):
        def fit(self, X, y):
            fitted.append(len(X))
            return super().fit(X, y)

    monkeypatch.setattr(classification.pm, "KernelClassifier", Noted)
    (row,) = rows(classification.run(data, ["default"]))
    assert fitted == [int((~held).sum()) for held in (*data.tests, data.validation)]
    assert row.accuracy > 80
    assert row.choice == ""


def test_figures_of_the_table():
    accuracies = {("a", "x"): 100.0, ("a", "y"): 92.0, ("b", "x"): 40.0, ("b", "y"): 50.0}
    lines = [{"dataset": name, "method": method, "accuracy": one} for (name, method), one in accuracies.items()]
    found = classification.figures(pd.DataFrame(lines))
    # x reaches 100 % and 80 % of the best, y 92 % and 100 %.
    np.testing.assert_allclose(found.loc["x"], [70.0, 1.96 * 30, 50.0, 50.0, 90.0])
    np.testing.assert_allclose(found.loc["y"], [71.0, 1.96 * 21, 100.0, 50.0, 96.0])


def test_the_share_of_the_sketch_is_swept(digits):
    found = rows(error.run("digits", digits.X, ["shares"], depths=(2,), widths=(200,), n_rows=50, draws=(0,)))
    assert [row.share for row in found] == list(error.SHARES)
    assert {row.n_components for row in found} == {200}
    phi = shared(2, 200, 0.3, 0)
    assert (phi.relu_components, phi.step_components, phi.hidden_components) == (140, 140, 140)


def test_folds_of_the_papers_sets_are_consecutive():
    """Rows that change from fold to fold cannot be told from others; random folds would tell them."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(4), 25, axis=0) + 0.01 * rng.standard_normal((100, 4))
    y = np.repeat([0.0, 1.0, 2.0, 3.0], 25)
    apart = [row.mse for row in rows(regression.run("CT", X, y, ["rbf"]))]
    mixed = [row.mse for row in rows(regression.run("kin40k", X, y, ["rbf"]))]
    assert np.mean(apart) > 10 * np.mean(mixed)


def test_a_network_alone_is_tuned_over_its_widths_and_has_no_share_of_the_best(collection):
    asked = {"methods": ["network"], "widths": [4, 8], "depths": [1], "quiet": True}
    found = classification.report(BenchOptions("ntk-uci-classification", data=collection, **asked), Stages())
    assert set(found.measurements["choice"]) <= {"depth 1, width 4", "depth 1, width 8"}
    [one] = found.findings
    assert (one.place, one.quantity, one.published) == ("Table 1, ReLU network", "accuracy (%)", "81.10 ± 3.11")
    assert one.size.endswith(", widths 4, 8")
    assert one.published_size.endswith(", widths 64, 128, 256, 512, 1024, 2048")


def test_large_sets_are_passed_over_or_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.standard_normal(60), rng.standard_normal((60, 3))])
    np.savetxt(tmp_path / "protein.csv.gz", table, delimiter=",", header="rmsd,f1,f2,f3", comments="")
    asked = {"data": tmp_path, "widths": [32], "methods": ["rff", "published"], "quiet": True}
    found = regression.report(BenchOptions("ntk-uci-regression", **asked), Stages())
    assert found.tables[-1].title == "sets that are not there"
    assert [line[0] for line in found.tables[-1].lines] == ["MillionSongs", "WorkLoads", "CT", "SuperConduct"]
    with pytest.raises(DataError, match=r"no file .*uci_large\.npz"):
        regression.report(BenchOptions("ntk-uci-regression", sets=["CT"], **asked), Stages())
    np.savez(tmp_path / "uci_large.npz", CT_X=table[:, 1:], CT_y=table[:, 0])
    with pytest.raises(DataError, match="no set WorkLoads"):
        uci.load_regression("WorkLoads", tmp_path)
    found = regression.report(BenchOptions("ntk-uci-regression", sets=["CT"], **asked), Stages())
    assert {one.place for one in found.findings} == {"Table 2, CT, RFF", "Table 2, CT, NTKRF"}
    assert found.findings[0].published == "48.2, 15.2"


def test_the_function_is_flat_and_its_polynomial_near():
    levels = {one.depth: one for one in rows(map(function.measure, function.DEPTHS))}
    assert abs(levels[32].level - function.KNEE) < 0.02
    # Shallow networks have no knee: the level is far below, and reached in few places.
    assert levels[2].level < 0.2
    assert all(one.least <= one.level <= one.most for one in levels.values())
    rms, largest = function.fit_errors()
    assert rms < 0.01
    assert largest < 0.05


def test_five_labels_of_each_class_teach(digits):
    found = pd.DataFrame(
        low_shot.run(digits, ["linear", "ntk", "features"], widths=(400,), draws=range(2), most_rows=300)
    )
    assert set(found["n_rows"]) == {50}
    for method in ("linear", "ntk", "features"):
        chosen = low_shot.best(found[found["method"] == method])
        assert len(chosen) == 2
        assert chosen["accuracy"].mean() > 75


def test_embeddings_are_read(tmp_path):
    assert [data.name for data in low_shot.load_embeddings(tmp_path, None, 0)] == ["digits"]
    with pytest.raises(DataError, match=r"no file .*embeddings\.npz"):
        low_shot.load_embeddings(tmp_path, ["CUB-200"], 0)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    X = np.eye(3, 8)[y] + 0.2 * rng.standard_normal((60, 8))
    arrays = {"CUB-200_Xtr": X, "CUB-200_ytr": y, "CUB-200_Xte": X, "CUB-200_yte": y}
    np.savez(tmp_path / "embeddings.npz", **arrays)
    options = BenchOptions("ntk-low-shot", data=tmp_path, repeats=2, widths=[64], methods=["linear", "features"])
    found = low_shot.report(options, Stages())
    assert [(one.place, one.published) for one in found.findings] == [
        ("Table 3, CUB-200, linear", "37.92"),
        ("Table 3, CUB-200, features", "-"),
    ]
    with pytest.raises(DataError, match="no set VOC07"):
        low_shot.load_embeddings(tmp_path, ["VOC07"], 0)


@pytest.mark.parametrize("activation", ["relu", "gelu", "leaky-relu", "sin"])
def test_kernels_are_those_of_wide_networks(activation, digits):
    options = {"depths": (1, 2), "widths": (1024,)}
    X = activations.read("digits", None, 100)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-6)
    found = rows(activations.run("digits", X, [activation], activations.METHODS, **options))
    assert [(one.depth, one.method) for one in found] == [(L, m) for L in (1, 2) for m in activations.METHODS]
    for one in found:
        # Means of 20 networks of width 1,024 err by about (some depth / 20,480)^(1/2), maps by a hundredth.
        assert one.error < 0.05
        assert abs(one.ratio - 1) < 0.05
    few = digits.X[:8] / np.linalg.norm(digits.X[:8], axis=1)[:, None]
    mean = activations.network_kernel(few, 2, activation, 1024, range(20))
    # Mutants: another depth, and another activation.
    for other in (NTK(1, activation), NTK(2, "abs")):
        assert np.linalg.norm(mean - other(few)) > 0.05 * np.linalg.norm(mean)


COMMANDS = [
    "ntk-function",
    "ntk-activations --sets digits --kernels gelu,abs --features 64 --depths 1,2 --rows 60 --repeats 2",
    "ntk-low-shot --sets digits --features 64,128 --methods rff,features,forest --repeats 2",
    "ntk-error --sets digits --methods features,gradient --depths 1 --features 64 --rows 50 --repeats 2",
    "ntk-spectral --sets digits --features 40 --rows 50 --repeats 1",
    "ntk-mnist --sets digits --features 64 --rows 200",
    "ntk-uci-regression --sets diabetes --features 64 --depths 1 --rows 200",
    "ntk-uci-classification --methods ntk,features --features 64 --depths 1",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_commands_print_tables_and_write_results(command, collection, tmp_path, monkeypatch):
    # A forest of each size would take most of the time.
    monkeypatch.setattr(ntk_methods, "ENSEMBLES", (5, 10))
    name = command.split()[0]
    arguments = ["bench", *command.split(), "--data", str(collection), "--output", str(tmp_path / "out"), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert written["rows"]
    # Findings of Figure 2a are those on MNIST, of Tables 2 those on the sets of the papers.
    assert bool(written["findings"]) == (name not in ("ntk-mnist", "ntk-uci-regression"))
    for figure in (tmp_path / "out").glob("*.png"):
        assert figure.read_bytes().startswith(b"\x89PNG")
    assert "│" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ntk-error", "--sets", "digits", "--methods", "nothing"], "--methods must be among published"),
        (["ntk-error", "--sets", "digits", "--repeats", "0"], "--repeats must be at least 1"),
        (["ntk-error", "--depths", "1,x"], "--depths must be positive integers"),
        (["ntk-uci-regression", "--sets", "nothing"], "must be one of protein"),
    ],
)
def test_bad_requests_are_one_line(arguments, message):
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
