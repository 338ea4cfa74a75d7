"""Variances and bounds in the papers, compared with simulations.

Liu et al. (2021), Section 3.1: the variance of estimates at one pair of points, and the bias of biased ones. Han et
al. (2021), Theorems 2 and 3 and Lemma 4, Zandieh et al. (2021), Theorems 6 and 7, and the survey's Table 3: the number
of features with which ``K + alpha I`` is approximated to a factor of 1 +- epsilon. The rows are worst cases: on half a
circle, in three tight clusters, or all equal. Lemma 3 of Han et al.: sketches of products. Lemma 3 of Zandieh et al.:
Taylor polynomials.

Differences from the sources: the sources state bounds without testing them. Only 12 rows are used, because the numbers
of features in the bounds grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, ResultTable, measured
from phimap.bench.options import BenchOptions

_SURVEY, _HAN, _ZANDIEH = "Liu et al. (2021)", "Han et al. (2021)", "Zandieh et al. (2021)"
EPSILON, DELTA, ALPHA = 0.5, 0.1, 0.2
ROWS, _LENGTH_SCALE = 12, 0.5
# For each variance: number of columns, number of directions, distances in length scales, and number of draws. With this
# many draws the relative error of a measured variance is 4 %.
COLUMNS, DIRECTIONS, TAUS, DRAWS = 16, 32, (0.5, 1.0, 2.0), 2000
_SIZE = f"{DIRECTIONS} directions, {COLUMNS} columns"
# Number of draws for each bound, and number of features formed at a time.
_BOUND_DRAWS, _PIECE = 15, 100_000
# For the bias of normalised features: the number of draws, and the number of draws at a time. With all draws the
# relative error of the bias is 5 %. For SORF: the number of columns, distances for which the bound is informative, and
# the number of draws.
_BIAS_DRAWS, _BIAS_PIECE = 1_600_000, 20_000
SORF_COLUMNS, SORF_TAUS, _SORF_DRAWS = 256, (0.2, 0.8), 200
# For sketched products, in this order: the number of columns of the vector with equal entries, the number of columns to
# which other rows are mapped, the number of draws for the vector, and alpha for the other rows.
_FLAT_COLUMNS, _WIDE_COLUMNS, _SKETCH_DRAWS, SKETCH_ALPHA = 8, 64, 200, 0.5

#: For each method of `phimap.theory.estimator_variance`, its name in the survey, and options of the map.
VARIANCES: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian": ("RFF", {"projection": "gaussian"}),
    "gaussian-offset": ("RFF with offsets", {"projection": "gaussian", "pairing": "offset"}),
    "gaussian-normalized": ("NRFF", {"projection": "gaussian", "pairing": "offset", "normalize_output": True}),
    "orthogonal": ("ORF", {"projection": "orthogonal"}),
    "orthogonal-offset": ("ORF with offsets", {"projection": "orthogonal", "pairing": "offset"}),
    "fastfood": ("Fastfood (an upper bound)", {"projection": "fastfood"}),
}

# Methods whose variance the survey does not print. For ORF it prints only the ratio of variances in the limit of many
# columns. Of NRFF it prints the variance, but no bias.
_OWN_FORMULAS = ("gaussian-offset", "orthogonal", "orthogonal-offset")
# For a bound that is a minimum of two terms in the source, words that name the tested term.
_BRANCHES = {(_ZANDIEH, "Theorem 7"): " of the branch without ranks"}


def _row(
    name: str,
    setting: str,
    predicted: float,
    found: float,
    n_components: int,
    draws: int,
    failures: int = 0,
    printed: Any = None,
) -> dict[str, Any]:
    """Return a row with one theoretical value and its simulation.

    Parameters
    ----------
    name, setting : str
        `name` is a method or a bound. `setting` is the distance in length scales, the set of rows, or epsilon.
    predicted, found : float
        `predicted` is the value of a formula, or the epsilon of a bound. `found` is the simulated value.
    n_components, draws : int
        `n_components` is the number of directions, or the number of features or terms that a bound promises.
    failures : int
        Number of draws whose error exceeds epsilon.
    printed : int or None
        Number of features by the source's printed formula, if the source's proof gives a different formula.
    """
    facts = {"name": name, "setting": setting, "predicted": predicted, "measured": found}
    return facts | {"n_components": n_components, "failures": failures, "draws": draws, "printed": printed}


def variances(draws: int = DRAWS, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Measure every variance at every distance, with the library's features."""
    for method, (_, options) in VARIANCES.items():
        for tau in TAUS:
            # The difference has a random direction, so it is not a special direction for structured projections.
            difference = np.random.default_rng(seed).standard_normal(COLUMNS)
            rows = np.stack([np.zeros(COLUMNS), tau * difference / np.linalg.norm(difference)]) + 0.3
            width = DIRECTIONS if "pairing" in options else 2 * DIRECTIONS
            found = _estimates(rows, width, draws, seed, **options)
            predicted = pm.theory.estimator_variance(method, tau, DIRECTIONS, COLUMNS)
            yield _row(method, f"{tau:g}", predicted, float(found.var(ddof=1)), DIRECTIONS, draws)


def _estimates(rows: np.ndarray, width: int, draws: int, seed: int, **options: Any) -> np.ndarray:
    """Return estimates (draws,) of the Gaussian kernel at two rows, from features that are drawn anew for each."""
    found = np.empty(draws)
    for draw in range(draws):
        stream = np.random.SeedSequence([seed, draw])
        phi = pm.FourierFeatures(pm.kernels.Gaussian(), width, random_state=stream, **options)
        first, second = phi.fit_transform(rows)
        found[draw] = first @ second
    return found


def biases(seed: int = 0) -> Iterator[dict[str, Any]]:
    """Measure two biases: of normalised features, next to its leading order, and of SORF, next to its bound."""
    rng = np.random.default_rng(seed)
    for tau in TAUS[:2]:
        # The offset makes w.x + b uniform, so only the distance between the rows matters. The variable `b` is w.x + b.
        errors = []
        for _ in range(_BIAS_DRAWS // _BIAS_PIECE):
            b = rng.uniform(0, 2 * np.pi, (_BIAS_PIECE, DIRECTIONS))
            f, g = np.cos(b), np.cos(b + tau * rng.standard_normal(b.shape))
            norms = np.sqrt(np.square(f).sum(axis=1) * np.square(g).sum(axis=1))
            errors.append(np.mean((f * g).sum(axis=1) / norms) - np.exp(-(tau**2) / 2))
        predicted = pm.theory.estimator_bias("gaussian-normalized", tau, DIRECTIONS)
        found = float(np.mean(errors))
        yield _row("gaussian-normalized", f"{tau:g}", predicted, found, DIRECTIONS, _BIAS_DRAWS)
    for tau in SORF_TAUS:
        rows = np.zeros((2, SORF_COLUMNS))
        # The difference of the rows has two nonzero columns. For such sparse rows the directions of SORF are far from
        # Gaussian. Gaussian directions would have no bias.
        rows[1, :2] = 0.6 * tau, -0.8 * tau
        found = _estimates(rows, 2 * SORF_COLUMNS, _SORF_DRAWS, seed, projection="sorf")
        predicted = pm.theory.estimator_bias("sorf", tau, SORF_COLUMNS, SORF_COLUMNS)
        bias = abs(float(found.mean()) - np.exp(-(tau**2) / 2))
        yield _row("sorf", f"{tau:g}", predicted, bias, SORF_COLUMNS, _SORF_DRAWS)


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def hard_rows(n: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    """Return sets of rows of norm 1 for which bounds are tight or may fail."""
    angle = np.linspace(0, np.pi, n)
    centres = np.eye(4)[np.minimum(np.arange(n) // (n // 2 - 1), 2)]
    return {
        "half a circle": np.stack([np.cos(angle), np.sin(angle)], axis=1),
        "three clusters": _unit(centres + 0.01 * np.random.default_rng(seed).standard_normal((n, 4))),
        "equal rows": np.tile([0.6, 0.8], (n, 1)),
    }


def _steps(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    return np.sqrt(2 / m) * (X @ rng.standard_normal((X.shape[1], m)) > 0)


def _modified_relu(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return rectified features for directions from the distribution ``|w|^2 N(0, I)``, divided by their norms.

    The norm of w affects no feature, so Gaussian directions are drawn.
    """
    W = rng.standard_normal((X.shape[1], m))
    return np.sqrt(2 * X.shape[1] / m) * np.maximum(X @ (W / np.linalg.norm(W, axis=0)), 0)


def _pairs(X: np.ndarray, s: int, rng: np.random.Generator) -> np.ndarray:
    projected = X @ rng.standard_normal((X.shape[1], s)) / _LENGTH_SCALE
    return np.concatenate([np.cos(projected), np.sin(projected)], axis=1) / np.sqrt(s)


#: For each bound: papers with places in them, a function that makes features from rows, a number of features and a
#: generator, and the kernel.
BOUNDS: dict[str, tuple[Sequence[tuple[str, str]], Callable[..., np.ndarray], Any]] = {
    "arccosine0-spectral": (
        ((_HAN, "Theorem 2"), (_ZANDIEH, "Theorem 6")),
        _steps,
        pm.kernels.ArcCosine(order=0),
    ),
    "arccosine1-spectral": (
        ((_HAN, "Theorem 3"), (_ZANDIEH, "Theorem 7")),
        _modified_relu,
        pm.kernels.ArcCosine(order=1),
    ),
    "fourier-spectral": (
        ((_SURVEY, "Table 3, spectral approximation"),),
        _pairs,
        pm.kernels.Gaussian(_LENGTH_SCALE),
    ),
}


def bounds(draws: int = _BOUND_DRAWS) -> Iterator[dict[str, Any]]:
    """Test each bound on every set of hard rows, with the number of features that the bound requires."""
    for name, (_, features, kernel) in BOUNDS.items():
        for rows, X in hard_rows().items():
            K = kernel(X)
            given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "alpha": ALPHA}
            given["statistical_dimension"] = pm.metrics.statistical_dimension(K, ALPHA)
            if name == "arccosine1-spectral":
                given |= {"d": X.shape[1], "operator_norm": float(np.linalg.norm(X, 2))}
            else:
                given["n"] = len(X)
            promised = pm.theory.required_features(name, **given)
            found = [_deviation(_estimate(features, X, promised.value, seed), K) for seed in range(draws)]
            yield _bound(name, rows, promised, found)


def _bound(name: str, setting: str, promised: Any, found: Sequence[float]) -> dict[str, Any]:
    """Return a row for the draws `found` of a quantity that epsilon bounds, and the promised number of features."""
    failures = sum(one > EPSILON for one in found)
    mean = float(np.mean(found))
    return _row(name, setting, EPSILON, mean, promised.value, len(found), failures, promised.printed)


def lemmas(draws: int = _BOUND_DRAWS) -> Iterator[dict[str, Any]]:
    """Test the lemmas on sketches of products, for a vector and for matrices, and on Taylor polynomials."""
    given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
    promised = pm.theory.required_features("tensor-countsketch", **given)
    # All entries are equal, so that products of entries collide as much as possible. A basis vector would be sketched
    # without error.
    flat = np.full((1, _FLAT_COLUMNS), _FLAT_COLUMNS**-0.5)
    found = []
    for seed in range(_SKETCH_DRAWS):
        (z,) = _squares(flat, promised.value, seed)
        found.append(abs(float(z @ z) - 1))
    yield _bound("tensor-countsketch", "a flat vector", promised, found)
    # The rows have only two or four columns, so few products of entries exist and they would hardly collide in the
    # sketch. A random isometry therefore maps the rows to `_WIDE_COLUMNS` columns, which leaves the kernel unchanged.
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((_WIDE_COLUMNS, _WIDE_COLUMNS)))[0]
    for rows, narrow in hard_rows().items():
        X = narrow @ rotation[: narrow.shape[1]]
        K = np.square(X @ X.T)
        dimension = pm.metrics.statistical_dimension(K, SKETCH_ALPHA)
        promised = pm.theory.required_features("tensor-countsketch-spectral", **given, statistical_dimension=dimension)
        sketches = (_squares(X, promised.value, seed) for seed in range(draws))
        found = [_deviation(Z @ Z.T, K, SKETCH_ALPHA) for Z in sketches]
        yield _bound("tensor-countsketch-spectral", rows, promised, found)
    for name, (order, epsilons) in _TAYLOR.items():
        for epsilon in epsilons:
            p = pm.theory.required_features(name, epsilon=epsilon).value
            error = _remainder(order, p)
            yield _row(name, f"{epsilon:g}", epsilon, error, p, 1, int(error > epsilon))


def _squares(X: np.ndarray, m: int, seed: int) -> np.ndarray:
    return pm.sketches.TensorSketch(m, degree=2, random_state=seed).fit_transform(X)


def _remainder(order: int, p: int) -> float:
    """Return the largest error on [-1, 1] of the Taylor polynomial of kappa0 or kappa1 with terms 0, ..., p.

    The error is largest at 1, because coefficients are positive. Terms of kappa1 are integrals of terms of kappa0.
    """
    i = np.arange(p + 1)
    # The coefficients are (2 i)! / (4^i i!^2) / pi.
    coefficients = np.cumprod(np.concatenate([[1.0], (2 * i[1:] - 1) / (2 * i[1:])])) / np.pi
    if order == 0:
        return float(1 / 2 - (coefficients / (2 * i + 1)).sum())
    return float(1 / 2 - 1 / np.pi - (coefficients / ((2 * i + 1) * (2 * i + 2))).sum())


_TAYLOR = {"taylor-arccosine1": (1, (0.1, 1e-3, 1e-5)), "taylor-arccosine0": (0, (0.1, 0.01, 1e-3))}


def _estimate(features: Callable[..., np.ndarray], X: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Return ``Z Z^T`` for m features, formed in parts of bounded size."""
    rng, total = np.random.default_rng(seed), np.zeros((len(X), len(X)))
    for start in range(0, m, _PIECE):
        piece = min(m - start, _PIECE)
        Z = features(X, piece, rng)
        total += Z @ Z.T * (piece / m)
    return total


def _deviation(A: np.ndarray, K: np.ndarray, alpha: float = ALPHA) -> float:
    """Return the least epsilon for which A + alpha I approximates K + alpha I to a factor of 1 +- epsilon."""
    eigenvalues, vectors = np.linalg.eigh(K)
    root = vectors / np.sqrt(np.maximum(eigenvalues, 0) + alpha)
    return float(np.abs(np.linalg.eigvalsh(root.T @ (A - K) @ root)).max())


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure variances, biases and bounds, and return a table of each and the findings."""
    n_draws = options.repeats or DRAWS
    of_variances = measured(stages, "variances", variances(n_draws, options.seed), len(VARIANCES) * len(TAUS))
    of_biases = measured(stages, "biases", biases(options.seed), len(TAUS[:2]) + len(SORF_TAUS))
    of_bounds = measured(stages, "bounds", bounds(), len(BOUNDS) * len(hard_rows()))
    of_lemmas = measured(stages, "lemmas", lemmas())
    found = pd.concat([of_variances, of_biases, of_bounds, of_lemmas], ignore_index=True).astype({"printed": "Int64"})
    of_theorems = found[len(of_variances) + len(of_biases) :]
    return Report(
        found,
        [
            _formula_table(f"variances of estimates of the Gaussian kernel, {_SIZE}", of_variances),
            _formula_table("mean errors: of normalised features, and of SORF beside its bound", of_biases),
            _bound_table(of_theorems),
        ],
        findings=[*_variance_findings(of_variances), *_bias_findings(of_biases), *_theorem_findings(of_theorems)],
    )


def _formula_table(title: str, found: pd.DataFrame) -> ResultTable:
    frame = found.assign(ratio=found["measured"] / found["predicted"])
    columns = {"name": ("method", ""), "setting": ("distance", ""), "predicted": ("formula", ".3g")}
    columns |= {"measured": ("simulated", ".3g"), "ratio": ("simulated / formula", ".3f")}
    return ResultTable.of(title, frame, columns)


def _bound_table(found: pd.DataFrame) -> ResultTable:
    printed = ["" if pd.isna(number) else f"{number:,}" for number in found["printed"]]
    frame = found.assign(printed=printed, missed=found["failures"].astype(str) + " of " + found["draws"].astype(str))
    columns = {"name": ("bound", ""), "setting": ("rows or epsilon", ""), "n_components": ("promised", ",")}
    columns |= {"printed": ("printed", ""), "measured": ("epsilon, mean of draws", ".3g"), "missed": ("missed", "")}
    title = f"bounds at epsilon = {EPSILON:g}, delta = {DELTA:g}, alpha = {ALPHA:g} (of sketches {SKETCH_ALPHA:g})"
    return ResultTable.of(title, frame, columns)


def _ratios(found: pd.DataFrame) -> str:
    ratios = found["measured"] / found["predicted"]
    return f"{ratios.min():.2g} to {ratios.max():.2g}"


def _drawn(found: pd.DataFrame) -> str:
    return f"distances {', '.join(found['setting'])}, {found['draws'].iloc[0]:,} draws"


def _printed_normalized(tau: float) -> float:
    """Return the variance of NRFF as the survey prints it. It starts from the variance of pairs instead of offsets."""
    E = np.exp(-(tau**2))
    return float(pm.theory.estimator_variance("gaussian", tau, DIRECTIONS) - E * (3 - E**2) / (4 * DIRECTIONS))


def _variance_findings(found: pd.DataFrame) -> Iterator[Finding]:
    for method, part in found.groupby("name", sort=False):
        ours, published = _ratios(part), "at most 1" if method == "fastfood" else "1"
        if method == "gaussian-normalized":
            printed = part["measured"] / [_printed_normalized(float(tau)) for tau in part["setting"]]
            ours = f"{ours}; over the printed formula " + ", ".join(f"{ratio:.2f}" for ratio in printed)
            published = "1; the printed formula is negative for small distances"
        place, size = f"Section 3.1, variance of {VARIANCES[method][0]}", f"{_SIZE}, {_drawn(part)}"
        if method in _OWN_FORMULAS:
            place, published = f"like {place}", "-"
        yield Finding(_SURVEY, place, "simulated over the formula", size, ours, published)


def _bias_findings(found: pd.DataFrame) -> Iterator[Finding]:
    wide = f"{SORF_COLUMNS} directions, {SORF_COLUMNS} columns"
    for method, place, what, published, size in (
        ("gaussian-normalized", "like Section 3.1, bias of NRFF", "leading order", "-", _SIZE),
        ("sorf", "Section 3.1, bias of SORF", "bound 6 tau / sqrt(d)", "at most 1", wide),
    ):
        part = found[found["name"] == method]
        yield Finding(_SURVEY, place, f"simulated over the {what}", f"{size}, {_drawn(part)}", _ratios(part), published)


def _bound_finding(paper: str, place: str, part: pd.DataFrame, rows: int) -> Finding:
    limit, printed = f"at most {EPSILON:g}, missed with probability {DELTA:g}", part["printed"].dropna()
    if len(printed):
        constant = f"the printed constant{_BRANCHES.get((paper, place), '')}"
        limit += f"; {constant} asks for {', '.join(f'{number:,}' for number in printed)} features"
    sizes = ", ".join(f"{one.setting} ({one.n_components:,} features)" for one in part.itertuples())
    quantity = f"epsilon with the promised number, and draws that miss {EPSILON:g}"
    size = f"{'1 row' if rows == 1 else f'{rows} rows'}: {sizes}"
    ours = ", ".join(f"{one.measured:.2g} ({one.failures} of {one.draws})" for one in part.itertuples())
    return Finding(paper, place, quantity, size, ours, limit)


def _theorem_findings(found: pd.DataFrame) -> Iterator[Finding]:
    by_name = dict(list(found.groupby("name")))
    for name, (places, _, _) in BOUNDS.items():
        for paper, place in places:
            yield _bound_finding(paper, place, by_name[name], ROWS)
    yield _bound_finding(_HAN, "Lemma 3", by_name["tensor-countsketch"], 1)
    yield _bound_finding(_HAN, "Lemma 4", by_name["tensor-countsketch-spectral"], ROWS)
    for name, (order, _) in _TAYLOR.items():
        part, quantity = by_name[name], "largest error of the Taylor polynomial over epsilon"
        size = ", ".join(f"epsilon {one.setting} ({one.n_components:,} terms)" for one in part.itertuples())
        ours = ", ".join(f"{ratio:.2f}" for ratio in part["measured"] / part["predicted"])
        yield Finding(_ZANDIEH, f"Lemma 3, kappa{order}", quantity, size, ours, "at most 1")
