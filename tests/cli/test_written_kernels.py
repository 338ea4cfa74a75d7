"""Kernels that the command prints are Python, and can be given back to it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import phimap as pm
from phimap import kernels
from phimap.cli.written_kernels import kernel_text, read_kernel

WRITTEN = [
    kernels.Matern(nu=2.5, length_scale=3.25),
    kernels.Matern(nu=math.inf, length_scale=1234.0),
    kernels.Additive(kernels.Gaussian(1.25), order=2),
    kernels.Gaussian(2.0) + 0.5 * kernels.Laplacian(1e-5),
    kernels.NTK(depth=2, activation="erf"),
    kernels.ArcCosine(order=np.int64(1)),
    kernels.SpectralMixture(np.array([0.25, 0.75]), np.array([[0.5, 0.0], [1.0, 2.0]]), np.ones((2, 2))),
    kernels.ActivationKernel(kernels.LeakyReLU(0.5)),
]


@pytest.mark.parametrize("kernel", WRITTEN, ids=lambda kernel: type(kernel).__name__)
def test_the_text_of_a_kernel_evaluates_to_the_kernel(kernel):
    text, X = kernel_text(kernel), np.random.default_rng(0).standard_normal((4, 2))
    names: dict[str, object] = {}
    exec("from phimap.kernels import *", names)
    for found in (eval(text, names), read_kernel(text)):
        assert type(found) is type(kernel)
        np.testing.assert_array_equal(found(X), kernel(X))


def test_numbers_are_rounded_to_four_digits():
    assert kernel_text(kernels.Gaussian(1.23456)) == "Gaussian(length_scale=1.235)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Matern(", "never closed"),
        ("Matern(width=2)", "width"),
        ("Martern(nu=1)", "there is no kernel 'Martern'"),
        ("print('x')", "there is no kernel 'print'"),
        ("Gaussian(__import__('os').getpid())", "malformed"),
        ("LeakyReLU(0.5)", "this is no kernel"),
        ("(1, 2)", "this is no kernel"),
        ("Kernel()", "abstract"),
    ],
)
def test_other_texts_are_refused(text, reason):
    with pytest.raises(ValueError, match="--kernel must be a name or a kernel") as error:
        read_kernel(text)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_the_printed_kernel_can_be_given_back(phimap, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    rows = "\n".join(f"{a},{b},{np.sin(a) + b}" for a, b in X)
    data, model = tmp_path / "t.csv", tmp_path / "m.phimap"
    data.write_text(f"a,b,y\n{rows}\n")
    fit = ("fit", data, "--target", "y", "--features", "64", "--corrections", "none", "--model", model)
    assert phimap(*fit, "--kernel", "gaussian", "--metric", "none").exit_code == 0
    text = kernel_text(pm.load(model).kernel_)
    assert text in phimap("info", model).stdout
    assert phimap(*fit, "--kernel", text).exit_code == 0
    assert kernel_text(pm.load(model).kernel_) == text
    refused = phimap(*fit, "--kernel", "Matern(nu=-)")
    assert refused.exit_code == 2
    assert "--kernel must be a name or a kernel" in refused.stderr
