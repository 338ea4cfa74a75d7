"""Numbers, levels, dates and texts as columns: their values against formulae, their scale, and what is unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

import phimap as pm
from phimap.tables.tallies import training_folds

N = 600
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "number": np.where(RNG.random(N) < 0.1, np.nan, RNG.exponential(5, N) + 1e6),
        "flag": RNG.random(N) < 0.2,
        "level": RNG.choice(["a", "b", "c", None], N, p=[0.5, 0.3, 0.1, 0.1]),
        "two": RNG.choice(["no", "yes"], N, p=[0.9, 0.1]),
        "town": [f"t{i}" for i in np.minimum(RNG.exponential(100, N).astype(int), 400)],
        "when": pd.Timestamp("2015-01-01") + pd.to_timedelta(RNG.integers(0, 4 * 365 * 86400, N), unit="s"),
        "text": [
            " ".join(RNG.choice(["red", "green", "small", "house", "boat", "river"], 5)) + f" {i}" for i in range(N)
        ],
    }
)
Y = FRAME["town"].str[1:].astype(int) % 5 + RNG.standard_normal(N)


def test_each_column_has_variance_one_and_few_words_say_so():
    encoder = pm.TableEncoder().fit(FRAME, Y)
    Z = encoder.transform(FRAME).astype(np.float64)
    named = [not name.endswith(": missing") for name in encoder.get_feature_names_out()]
    assert Z.shape == (N, encoder.n_columns_out_)
    np.testing.assert_allclose(Z.var(axis=0), encoder.variances_, rtol=1e-3)
    np.testing.assert_allclose(np.bincount(encoder.groups_[named], Z.var(axis=0)[named]), 1, rtol=1e-3)


def test_numbers_are_standardised_and_missing_ones_are_at_the_median():
    encoder = pm.TableEncoder().fit(FRAME[["number"]])
    Z = encoder.transform(FRAME)
    filled = FRAME["number"].fillna(FRAME["number"].median())
    np.testing.assert_allclose(Z[:, 0], (filled - filled.mean()) / filled.std(ddof=0), atol=1e-4)
    np.testing.assert_array_equal(Z[:, 1], FRAME["number"].isna())
    assert list(encoder.get_feature_names_out()) == ["number", "number: missing"]


def test_levels_are_columns_of_one_scale():
    encoder = pm.TableEncoder().fit(FRAME[["level"]])
    assert list(encoder.get_feature_names_out()) == ["level=a", "level=b", "level=c", "level=(missing)"]
    plain = pd.get_dummies(FRAME["level"].fillna("missing")).to_numpy(float)
    np.testing.assert_allclose(encoder.transform(FRAME), plain / np.sqrt(plain.var(axis=0).sum()), rtol=1e-6)


def test_two_levels_are_one_column_and_others_lie_between():
    encoder = pm.TableEncoder().fit(FRAME[["two"]])
    assert list(encoder.get_feature_names_out()) == ["two=yes"]
    no, yes, new, missing = encoder.transform(pd.DataFrame({"two": ["no", "yes", "perhaps", None]})).ravel()
    assert no == 0 < new == missing < yes
    share = (FRAME["two"] == "yes").mean()
    np.testing.assert_allclose([new, yes], np.array([share, 1]) / np.sqrt(share * (1 - share)), rtol=1e-6)


def test_levels_that_were_not_met_are_none_of_the_others_or_one_of_the_rare():
    encoder = pm.TableEncoder().fit(FRAME[["level"]])
    assert not encoder.transform(pd.DataFrame({"level": ["new"]})).any()
    rare = pd.DataFrame({"level": [*"ab" * 50, "c", "d"]})
    encoder = pm.TableEncoder().fit(rare)
    assert list(encoder.get_feature_names_out()) == ["level=a", "level=b", "level=(other)"]
    Z = encoder.transform(pd.DataFrame({"level": ["c", "new", None]}))
    assert Z[0, 2] > 0
    np.testing.assert_array_equal(Z[1:], Z[:1].repeat(2, axis=0))


def noisy() -> pd.Series:
    return Y + 3 * np.random.default_rng(9).standard_normal(N)


def shrunk(sums, counts, y, within, between):
    """Posterior means of levels in a normal model with random levels."""
    m = within / between
    return (sums + m * y.mean()) / (counts + m)


def test_many_levels_are_means_of_the_target_drawn_to_the_mean():
    # So noisy that the prior counts for more than the one row that it counts for at the least.
    Y = noisy()
    encoder = pm.TableEncoder().fit(FRAME[["town"]], Y)
    Z = encoder.transform(FRAME)[:, 0]
    groups = Y.groupby(FRAME["town"])
    counts, sums = groups.size(), groups.sum()
    n, L = N, len(counts)
    between = (counts * (sums / counts - Y.mean()) ** 2).sum()
    within = (((Y - groups.transform("mean")) ** 2).sum()) / (n - L)
    spread = (between - (L - 1) * within) / (n - (counts**2).sum() / n)
    wanted = FRAME["town"].map(shrunk(sums, counts, Y, within, spread)) - Y.mean()
    np.testing.assert_allclose(Z, wanted / np.sqrt((wanted**2).mean()), rtol=1e-5)
    new = encoder.transform(pd.DataFrame({"town": ["Atlantis"]}))
    np.testing.assert_allclose(new, 0, atol=1e-6)


def test_training_rows_do_not_see_their_own_targets():
    fold = training_folds(0, N) == 2
    # The targets of a fold trade places: sums over levels within it change, and the other folds do not.
    changed = Y.to_numpy().copy()
    changed[fold] = np.random.default_rng(1).permutation(changed[fold])
    before, after = (pm.TableEncoder().fit_transform(FRAME[["town"]], y)[fold, 0] for y in (Y, changed))
    # The prior and the scale are those of all rows.
    np.testing.assert_allclose(np.corrcoef(before, after)[0, 1], 1, atol=1e-3)
    seen = [pm.TableEncoder().fit(FRAME[["town"]], y).transform(FRAME)[fold, 0] for y in (Y, changed)]
    assert np.corrcoef(*seen)[0, 1] < 0.99


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"]])
def test_noise_tells_nothing_of_the_targets_of_its_own_rows(labels):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"key": [f"k{i}" for i in rng.integers(0, 400, 2000)]})
    y = rng.choice(labels, 2000)
    encoder = pm.TableEncoder().fit(frame, y)
    n_columns = 1 if len(labels) == 2 else len(labels)
    assert encoder.n_columns_out_ == n_columns
    honest, seen = encoder.transform_training(frame)[:, -1], encoder.transform(frame)[:, -1]
    assert np.corrcoef(seen, y == labels[-1])[0, 1] > 0.25
    # Five standard errors of a correlation of 2,000 rows that are independent.
    assert abs(np.corrcoef(honest, y == labels[-1])[0, 1]) < 5 / np.sqrt(2000)


def test_many_levels_without_a_target_are_frequent_ones_and_a_hash():
    encoder = pm.TableEncoder().fit(FRAME[["town"]])
    Z = encoder.transform(FRAME)
    assert encoder.n_columns_out_ == 40
    assert ((Z > 0).sum(axis=1) == 1).all()
    new = encoder.transform(pd.DataFrame({"town": ["Atlantis"]}))
    assert (new[0, 32:] > 0).sum() == 1


def test_dates_are_a_trend_and_points_on_circles():
    encoder = pm.TableEncoder().fit(FRAME[["when"]])
    Z = encoder.transform(FRAME).astype(np.float64)
    when = FRAME["when"].dt
    seconds = (FRAME["when"] - pd.Timestamp(0)).dt.total_seconds()
    np.testing.assert_allclose(Z[:, 0] * 2, (seconds - seconds.mean()) / seconds.std(ddof=0), atol=1e-5)
    angles = [
        (when.hour + when.minute / 60 + when.second / 3600) / 24,
        when.day_of_week / 7,
        (when.day_of_year - 1) / 365.2425,
    ]
    for place, angle in enumerate(angles):
        circle = np.column_stack([np.sin(2 * np.pi * angle), np.cos(2 * np.pi * angle)])
        part = Z[:, 1 + 2 * place : 3 + 2 * place]
        np.testing.assert_allclose(part, circle / np.sqrt(4 * circle.var(axis=0).sum()), atol=1e-5)
    assert encoder.parts_.tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_cycles_that_do_not_vary_are_left_out_and_missing_times_are_said():
    days = pd.date_range("2020-01-01", periods=30, freq="D").to_series().reset_index(drop=True)
    days[3] = pd.NaT
    encoder = pm.TableEncoder().fit(pd.DataFrame({"day": days}))
    names = ["day: trend", "day: sine of day of the week", "day: cosine of day of the week", "day: missing"]
    assert list(encoder.get_feature_names_out()) == names
    Z = encoder.transform(pd.DataFrame({"day": days}))
    assert np.flatnonzero(Z[:, 3]).tolist() == [3]
    assert np.isfinite(Z).all()


def test_texts_are_directions_of_weighted_n_grams():
    encoder = pm.TableEncoder(n_text_components=N - 1, sparse_output=False).fit(FRAME[["text"]])
    Z = encoder.transform(FRAME)
    exact = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4)).fit_transform(FRAME["text"])
    products = (exact @ exact.T).toarray()
    centre = np.eye(N) - 1 / N
    products = centre @ products @ centre
    found = Z @ Z.T * (np.trace(products) / N)
    # Among 8,192 places some n-grams meet.
    assert np.corrcoef(found.ravel(), products.ravel())[0, 1] > 0.98
    few = pm.TableEncoder(n_text_components=3, sparse_output=False).fit(FRAME[["text"]])
    assert few.transform(FRAME).shape == (N, 3)


def test_a_table_of_text_alone_in_sparse_rows():
    encoder = pm.TableEncoder(sparse_output=True).fit(FRAME[["text", "number"]])
    Z = encoder.transform(FRAME)
    assert Z.format == "csr"
    assert Z.shape == (N, 2**16 + 2)
    np.testing.assert_allclose(Z[:, : 2**16].multiply(Z[:, : 2**16]).sum(axis=1), 1, rtol=1e-5)
    assert pm.TableEncoder(sparse_output="auto").fit(FRAME[["text"]]).transform(FRAME).format == "csr"
