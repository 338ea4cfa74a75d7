"""The exact forms of the parts of a fitted model.

A model is a constant plus a sum of parts: a linear model on features, corrections, and trees. `split_fitted` adds up
the parts. `PARTS` holds a function for each map that has exact forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from phimap.explain.forms.base import Form, ScaledForm
from phimap.explain.forms.components import components
from phimap.explain.forms.leaves import LeafForm
from phimap.explain.forms.phases import PhaseForm
from phimap.explain.forms.products import LandmarkForm
from phimap.explain.forms.symmetric import SymmetricForm
from phimap.explain.sampling import Function
from phimap.features.data_dependent.compressed import SelectedRecord
from phimap.features.defaults import ScaledRecord
from phimap.features.fourier import FourierRecord
from phimap.features.nystroem.nystroem import NystroemRecord
from phimap.features.power_series.powers import StackedRecord
from phimap.kernels import FiniteSpectrum, Kernel
from phimap.learn.corrections.corrections import Corrections
from phimap.learn.fitted import Fitted
from phimap.learn.rows.scaling import Scaling
from phimap.learn.scaled_map import scaled
from phimap.learn.trees.ensemble import BoostedTrees
from phimap.ops import host
from phimap.random_map import MapRecord


@dataclass(frozen=True)
class Split:
    """A function with t outputs as a sum of exact forms and of functions without one.

    Attributes
    ----------
    forms : tuple of Form
        Forms, which are functions of rows (n, w).
    rest : tuple of callable
        Functions from rows (n, w) to outputs (n, t).
    """

    forms: tuple[Form, ...] = ()
    rest: tuple[Function, ...] = ()

    def __add__(self, other: Split) -> Split:
        return Split(self.forms + other.forms, self.rest + other.rest)


def split_fitted(fitted: Fitted, n_jobs: int | None) -> Split:
    """Split the outputs of a model into exact forms and functions without a form.

    All of them are functions of unscaled rows of numbers. The constant is left out, and so is the shrinkage of outputs
    far from the training rows.
    """
    scaling, units, trees = fitted.map.scaling, fitted.targets.units, fitted.trees
    exponent, share = 0 if units is None else units.exponent, 1.0 if trees is None else 1.0 - trees.share
    split = split_map(fitted.map.record, share * fitted.solved.coef, scaling.root)
    if fitted.corrections is not None:
        models = tuple(replace(one, coefs=share * np.ldexp(one.coefs, exponent)) for one in fitted.corrections.models)
        split += _of_corrections(replace(fitted.corrections, models=models), scaling.root, n_jobs)
    rest = tuple(lambda rows, part=part: part(scaled(scaling, rows)) for part in split.rest)
    split = Split(scaled_forms(split.forms, scaling), rest)
    return split if trees is None else split + _of_trees(trees, exponent, n_jobs)


def scaled_forms(forms: tuple[Form, ...], scaling: Scaling) -> tuple[Form, ...]:
    """Convert forms of rows that are scaled column by column to forms of unscaled rows.

    The rows of the given forms are not multiplied by the root of a full metric.
    """
    by_column = replace(scaling, root=None)
    return tuple(ScaledForm(form, lambda rows: scaled(by_column, rows)) for form in forms)


def constant_of(fitted: Fitted) -> np.ndarray:
    """Return the constant (t,) that the model adds to the sum of its parts."""
    constant, units, trees = np.asarray(fitted.solved.intercept, dtype=np.float64), fitted.targets.units, fitted.trees
    if trees is None:
        return constant
    baseline = np.zeros_like(constant) if trees.has_labels else trees.baseline
    return (1.0 - trees.share) * constant + trees.share * (baseline if units is None else units.undo(baseline))


def split_map(record: MapRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split:
    """Split ``phi(x)^T coefs`` for rows that are multiplied by `root` (w, k), or by nothing, before the map.

    The functions in `rest` are functions of rows after that product.
    """
    part = PARTS.get(type(record))
    found = None if part is None else part(record, coefs, root)
    return Split(rest=(_outputs_of(record, coefs),)) if found is None else found


def landmark_forms(
    kernel: Kernel, landmarks: np.ndarray, coefs: np.ndarray, scale: np.ndarray | None = None
) -> tuple[Form, ...] | None:
    """Return the forms of ``sum_i coefs_i k(x, z_i)`` for landmarks (m, w); None if the kernel has none.

    `scale` (w,) are factors of the columns of x, by which the landmarks have been multiplied.
    """
    if isinstance(kernel, FiniteSpectrum):
        frequencies, weights = np.asarray(kernel.frequencies, dtype=np.float64), kernel._measure()[:, None]
        angles = frequencies @ landmarks.T
        cosines, sines = weights * (np.cos(angles) @ coefs), weights * (np.sin(angles) @ coefs)
        return (PhaseForm(frequencies if scale is None else frequencies * scale, cosines, sines),)
    found = components(kernel, landmarks.shape[1])
    if found is None:
        return None
    kinds = [SymmetricForm if one.subsets else LandmarkForm for one in found]
    return tuple(kind(one, landmarks, coefs, scale) for kind, one in zip(kinds, found, strict=True))


def _of_corrections(corrections: Corrections, root: np.ndarray | None, n_jobs: int | None) -> Split:
    """Split corrections. With one region they are a sum over landmarks.

    With several regions they have no form, because the region of a row depends on all columns.
    """
    own, forms = corrections.root, None
    if root is None and corrections.n_regions == 1 and (own is None or own.ndim == 1):
        scale = corrections.scale * (np.ones(corrections.rows.shape[1]) if own is None else own)
        # All partitions into a single region are the same, so there is one model.
        (model,) = corrections.models
        forms = landmark_forms(corrections.kernel, corrections.rows[model.order], model.coefs, scale)
    return Split(rest=(lambda rows: corrections.outputs(rows, n_jobs),)) if forms is None else Split(forms)


def _of_trees(trees: BoostedTrees, exponent: int, n_jobs: int | None) -> Split:
    """Split trees. The leaves of regression trees are products of indicators of intervals.

    Classification trees have no form, because probabilities are not sums of leaves.
    """
    if trees.has_labels:
        return Split(rest=(lambda rows: trees.share * trees.outputs(rows, n_jobs),))
    return Split((LeafForm(trees, float(np.ldexp(trees.share, exponent))),))


def _outputs_of(record: MapRecord, coefs: np.ndarray) -> Function:
    """Return the function ``phi(x)^T coefs``."""
    plain, weights = record.unwhitened(coefs)
    bound = plain.bind(host())
    return lambda rows: bound.linear_outputs(host(), rows, weights)


def _of_fourier(record: FourierRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split | None:
    n_pairs, n_phases = record.n_pairs, record.shift.shape[0]
    if record.normalize_input or (record.normalize_output and n_phases):
        return None
    frequencies = record.projection.to_dense()
    scale = record.scale
    if record.normalize_output:
        # The squares of a cosine and a sine add up to 1. Without phases, the features therefore have the norm of
        # `scale`.
        scale = scale / np.linalg.norm(scale)
    if root is not None:
        frequencies = frequencies @ root.T
    # The features are the cosines of the pairs, then their sines, then the cosines with phases.
    paired, shifted = scale[:n_pairs, None], scale[n_pairs:, None] * coefs[2 * n_pairs :]
    shift = record.shift[:, None]
    cosines = np.concatenate([paired * coefs[:n_pairs], np.cos(shift) * shifted])
    sines = np.concatenate([paired * coefs[n_pairs : 2 * n_pairs], -np.sin(shift) * shifted])
    return Split((PhaseForm(frequencies, cosines, sines),))


def _of_nystroem(record: NystroemRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split | None:
    weights = record.unwhitened(coefs)[1]
    forms = None if root is not None else landmark_forms(record.kernel, record.landmarks, weights)
    return None if forms is None else Split(forms)


def _of_stack(record: StackedRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split:
    result, first = Split(), 0
    for part in record.parts:
        result += split_map(part, coefs[first : first + part.n_components], root)
        first += part.n_components
    return result


def _of_scaled(record: ScaledRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split:
    return split_map(record.record, record.factor * coefs, root)


def _of_selected(record: SelectedRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split:
    whole = np.zeros((record.inner.n_components, coefs.shape[1]))
    np.add.at(whole, record.columns, record.factors[:, None] * coefs)
    return split_map(record.inner, whole, root)


#: Functions that split ``phi(x)^T coefs`` by type of the map's record; they return None for maps without a form.
PARTS: dict[type[MapRecord], Callable[..., Split | None]] = {
    FourierRecord: _of_fourier,
    NystroemRecord: _of_nystroem,
    StackedRecord: _of_stack,
    ScaledRecord: _of_scaled,
    SelectedRecord: _of_selected,
}
