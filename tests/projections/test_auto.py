"""The projection that ``"auto"`` chooses, and how near its error comes to the best."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import phimap as pm
from phimap.kernels import Additive, Cauchy, Gaussian, GaussianLaw, Laplacian, Matern, StandardGaussianLaw
from phimap.projections import Orthogonal, as_projection


@pytest.mark.parametrize("law", [GaussianLaw(48), StandardGaussianLaw(48), Matern(nu=0.5).spectral_law(48)])
def test_narrow_rotation_invariant_laws_get_designed_points(law):
    assert as_projection("auto", law).name == "minimum-energy"
    assert as_projection("auto", law.unit(1)).name == "minimum-energy"
    assert as_projection("auto", law.unit(49)).name == "ssf"
    assert as_projection("auto", law.unit(10_000)).name == "ssf"


@pytest.mark.parametrize("kernel", [Laplacian(), Cauchy()], ids=repr)
def test_laws_of_independent_coordinates_get_sobol_points(kernel):
    assert as_projection("auto", kernel.spectral_law(3)).name == "qmc"
    assert as_projection("auto", kernel.spectral_law(1025)).name == "gaussian"


@pytest.mark.parametrize(
    ("base", "order", "name"),
    [
        (Gaussian(), 1, "minimum-energy"),
        (Matern(nu=0.5), 48, "minimum-energy"),
        (Gaussian(), 49, "orthogonal"),
        (Laplacian(), 2, "qmc"),
        (Gaussian() * Laplacian(), 2, "gaussian"),
    ],
)
def test_additive_laws_get_what_their_base_gets(base, order, name):
    assert as_projection("auto", Additive(base, order).spectral_law(60)).name == name


def test_a_projection_is_taken_as_it_is():
    projection = Orthogonal()
    assert as_projection(projection, GaussianLaw(5)) is projection


def test_every_feature_map_chooses_by_itself():
    X = np.random.default_rng(0).standard_normal((3, 5))
    maps = {
        pm.FourierFeatures(random_state=0): "minimum-energy",
        pm.FourierFeatures(Laplacian(), random_state=0): "qmc",
        pm.ArcCosineFeatures(random_state=0): "minimum-energy",
        pm.ActivationFeatures("gelu", random_state=0): "minimum-energy",
    }
    for phi, name in maps.items():
        chosen = phi.fit(X).record_
        np.testing.assert_array_equal(
            chosen.projection.to_dense(), phi.set_params(projection=name).fit(X).record_.projection.to_dense()
        )


SETS = {"digits": load_digits, "wine": load_wine, "breast-cancer": load_breast_cancer}
RIVALS = ["gaussian", "orthogonal", "sorf", "fastfood", "circulant", "qmc", "moment-matching", "ssf", "simplex"]


def mean_error(make, X, K, projection, draws):
    """Mean relative error over `draws` seeds; infinite where the projection serves no such kernel or width."""
    found = []
    for seed in range(draws):
        try:
            phi = make(projection, seed).fit(X)
        except ValueError:
            return np.inf
        Z = phi.transform(X)
        found.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
    return np.mean(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("multiple", [4, 16])
@pytest.mark.parametrize("kernel", ["gaussian", "matern", "laplacian", "arc-cosine"])
def test_auto_errs_at_most_a_tenth_more_than_the_best(name, multiple, kernel):
    """Means of 10 draws with fixed seeds."""
    X = SETS[name]().data
    X = X[:, X.std(axis=0) > 0]
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[:300]
    d = X.shape[1]

    def make(projection, seed):
        if kernel == "arc-cosine":
            return pm.ArcCosineFeatures(1, multiple * d, projection=projection, random_state=seed)
        length_scale = {"laplacian": 1.1 * d, "gaussian": 1.4 * d**0.5, "matern": 1.4 * d**0.5}[kernel]
        wanted = {"gaussian": Gaussian, "laplacian": Laplacian, "matern": Matern}[kernel](length_scale=length_scale)
        return pm.FourierFeatures(wanted, 2 * multiple * d, projection=projection, random_state=seed)

    # The exact kernel is the same for all of them, and would take more time than the maps.
    K = make("auto", 0).fit(X).kernel_(X)
    errors = {projection: mean_error(make, X, K, projection, 10) for projection in ("auto", *RIVALS)}
    best = min(errors[projection] for projection in RIVALS)
    assert errors["auto"] <= 1.1 * best, errors
    assert errors["auto"] < errors["gaussian"], errors
