"""Drawing the terms of a power series for a given allocation of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from phimap.features.power_series.allocation import Allocation, Piece, WidthOption
from phimap.features.power_series.moments import RowMoments
from phimap.features.power_series.powers import draw_powers
from phimap.features.power_series.terms import MonomialsRecord, RemainderRecord, SeriesTerm
from phimap.sketches.signs import fair_signs


def draw_terms(allocation: Allocation, method: str, rng: np.random.Generator) -> tuple[SeriesTerm, ...]:
    """Draw the terms of a map with `allocation.n_components` features in total."""
    if not np.isfinite(allocation.predicted_error()):
        return _scattered_terms(allocation, method, rng)
    remainder_rng, power_rng = rng.spawn(2)
    moments = allocation.moments
    terms = [term for option in allocation.options for term in _exact_terms(option, moments)]
    drawn = list(zip(allocation.pieces, allocation.sketch_widths(), strict=True))
    for piece, width in drawn:
        if piece.leading:
            basis = np.ascontiguousarray(moments.basis[:, : piece.leading])
            remainder = RemainderRecord.draw(basis, piece.degree, width, remainder_rng)
            terms.append(SeriesTerm(piece.polynomials, remainder))
    powers = [(piece, width, width) for piece, width in drawn if not piece.leading]
    terms += _power_terms(powers, allocation, method, power_rng)
    unused = allocation.n_components - sum(term.n_components for term in terms)
    if unused:
        terms.append(SeriesTerm(np.zeros((allocation.options[0].exact.shape[0], unused)), None))
    return tuple(terms)


def _exact_terms(option: WidthOption, moments: RowMoments) -> Iterator[SeriesTerm]:
    if not option.width:
        return
    if option.degree == 0:
        yield SeriesTerm(option.exact, None)
        return
    basis = np.ascontiguousarray(moments.basis[:, : option.leading]) if option.leading else None
    features = MonomialsRecord.of(moments.n_features, basis, option.degree)
    for factor in option.exact.T:
        yield SeriesTerm(factor[:, None], features)


def _power_terms(
    drawn: Sequence[tuple[Piece, int, float]], allocation: Allocation, method: str, rng: np.random.Generator
) -> list[SeriesTerm]:
    """Draw the terms of whole powers.

    `drawn` holds pieces, their widths, and the expected widths, which make the weights unbiased.
    """
    if not drawn:
        return []
    sketch_rng, sign_rng = rng.spawn(2)
    polynomials = []
    for piece, width, share in drawn:
        # Each feature sums the factors with its own random signs, so the cross terms have mean zero.
        signs = fair_signs(sign_rng, (piece.polynomials.shape[1], width))
        polynomials.append(piece.polynomials @ signs * (width / share) ** 0.5)
    degrees, widths = [piece.degree for piece, _, _ in drawn], [width for _, width, _ in drawn]
    squared_cosine = float(allocation.moments.squared_cosines().mean())
    powers = draw_powers(method, allocation.moments.n_features, degrees, widths, squared_cosine, sketch_rng)
    return [SeriesTerm(np.concatenate(polynomials, axis=1), powers)]


def _scattered_terms(allocation: Allocation, method: str, rng: np.random.Generator) -> tuple[SeriesTerm, ...]:
    """Draw terms for fewer features than pieces: features are assigned to pieces at random, without bias.

    With systematic sampling, a piece whose expected number of features is q < 1 gets one feature with probability q,
    multiplied by ``q^(-1/2)``.
    """
    shift_rng, power_rng = rng.spawn(2)
    constant = allocation.options[0].exact
    pieces = [Piece(0, constant, 0, float(np.square(constant).sum())), *allocation.pieces]
    pieces = [piece for piece in pieces if piece.polynomials.shape[1]]
    deviations = np.array([piece.standard_deviation for piece in pieces])
    # Every piece needs a positive probability, even if its variance is 0 on the row sample.
    deviations += max(deviations.mean(), 1.0) / 64
    shares = allocation.n_components * deviations / deviations.sum()
    ends = np.floor(np.cumsum(shares) + shift_rng.random()).astype(int)
    ends[-1] = allocation.n_components
    drawn = [
        (piece, width, width if share >= 1 else share)
        for piece, width, share in zip(pieces, np.diff(ends, prepend=0).tolist(), shares, strict=True)
        if width
    ]
    constants = [
        SeriesTerm(np.repeat(piece.polynomials, width, axis=1) * share**-0.5, None)
        for piece, width, share in drawn
        if piece.degree == 0
    ]
    powers = [part for part in drawn if part[0].degree]
    return (*constants, *_power_terms(powers, allocation, method, power_rng))
