"""The exact forms of feature maps and of corrections.

`PARTS` lists the maps that have exact forms. A further map is one more function in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phimap.explain.forms.base import Form
from phimap.explain.forms.components import components
from phimap.explain.forms.phases import PhaseForm
from phimap.explain.forms.products import ProductForm
from phimap.explain.forms.symmetric import SymmetricForm
from phimap.features.data_dependent.compressed import SelectedRecord
from phimap.features.defaults import ScaledRecord
from phimap.features.fourier import FourierRecord
from phimap.features.nystroem.nystroem import NystroemRecord
from phimap.features.power_series.powers import StackedRecord
from phimap.kernels import FiniteSpectrum, Kernel
from phimap.learn.corrections.corrections import Corrections
from phimap.random_map import MapRecord


@dataclass(frozen=True)
class Split:
    """A linear model on features as a sum of exact forms and of maps without one.

    Attributes
    ----------
    forms : tuple of Form
        Functions of rows before the root of the metric.
    rest : tuple of (MapRecord, ndarray of shape (m, t))
        Maps without an exact form, of rows after the root, with their coefficients.
    """

    forms: tuple[Form, ...] = ()
    rest: tuple[tuple[MapRecord, np.ndarray], ...] = ()

    def __add__(self, other: Split) -> Split:
        return Split(self.forms + other.forms, self.rest + other.rest)


def split_map(record: MapRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split:
    """Split ``phi(x)^T coefs`` for rows that are multiplied by `root` (w, k), or by nothing, before the map."""
    part = PARTS.get(type(record))
    found = None if part is None else part(record, coefs, root)
    return Split(rest=((record, coefs),)) if found is None else found


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
    kinds = [ProductForm if one.order is None else SymmetricForm for one in found]
    return tuple(kind(one, landmarks, coefs, scale) for kind, one in zip(kinds, found, strict=True))


def correction_forms(corrections: Corrections, root: np.ndarray | None) -> tuple[Form, ...] | None:
    """Return the forms of corrections without regions; None if there are several regions or a full root."""
    own = corrections.root
    if root is not None or corrections.partition.n_regions > 1 or (own is not None and own.ndim > 1):
        return None
    scale = corrections.scale * (np.ones(corrections.rows.shape[1]) if own is None else own)
    return landmark_forms(corrections.kernel, corrections.rows, corrections.coefs, scale)


def _of_fourier(record: FourierRecord, coefs: np.ndarray, root: np.ndarray | None) -> Split | None:
    n_pairs, n_phases = record.n_pairs, record.shift.shape[0]
    if record.normalize_input or (record.normalize_output and n_phases):
        return None
    frequencies = record.projection.to_dense()
    scale = record.scale
    if record.normalize_output:
        # With pairs alone, the norm of the features is that of the scales.
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
    weights = record.whitening @ coefs[: record.landmarks.shape[0]]
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
