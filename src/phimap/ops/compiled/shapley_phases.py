"""Shapley sums of products of phases, see `phimap.ops.primitives.shapley_sums`.

A lane of a vector is a term. Because the integral is real, the nodes t and -t give the same real part, and only nodes t
>= 0 are computed. Two nodes are computed at a time: in a chain of complex products for a single node, each product
would wait for the one before. The node 0 has real factors. At the node 1, a product of all factors but one is ``exp(i
(sum psi - psi_j))``, which needs no chain; psi_j is defined in `phase_shapley`.
"""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import (
    lanes_of_long,
    load_long,
    multiply,
    multiply_add,
    multiply_subtract,
    spread,
    store,
    subtract,
)


@inlined
def _times(x, y, c, d):
    """Real and imaginary part of ``(x + i y)(c + i d)``."""
    return multiply_subtract(x, c, multiply(y, d)), multiply_add(x, d, multiply(y, c))


@inlined
def _angles(a, b, c, d, first, other, p, step, cosines, sines):
    """Write cosine and sine of psi, the difference of two half angles, for p players.

    The cosines and sines of the explained row's half angles are in a and b, from `first` on. Those of the background
    row are in c and d, from `other` on. `step` is the number of lanes.
    """
    for j in range(p):
        x, y = load_long(a, first + j * step), load_long(b, first + j * step)
        v, w = load_long(c, other + j * step), load_long(d, other + j * step)
        store(cosines, j * step, multiply_add(x, v, multiply(y, w)))
        store(sines, j * step, multiply_subtract(y, v, multiply(x, w)))


@compiled
def shapley(rows, background, ends, nodes, weights, scratch, outs):
    """Add to both `outs` (G, n, p, L) the sums of `phase_shapley`; scratch is (7, p L).

    `ends` holds the weights of the nodes 0 and 1. The number of other nodes is even.
    """
    groups, n, p, _ = rows[0].shape
    n_background = background[0].shape[1]
    a, b, a_total, b_total = rows[0].reshape(-1), rows[1].reshape(-1), rows[2].reshape(-1), rows[3].reshape(-1)
    c, d = background[0].reshape(-1), background[1].reshape(-1)
    c_total, d_total = background[2].reshape(-1), background[3].reshape(-1)
    of_cosine, of_sine = outs[0].reshape(-1), outs[1].reshape(-1)
    cosines, sines, sums = scratch[0], scratch[1], scratch[2]
    real, imaginary, real_2, imaginary_2 = scratch[3], scratch[4], scratch[5], scratch[6]
    step = lanes_of_long(cosines)
    for g in range(groups):
        for r in range(n):
            first = (g * n + r) * p * step
            for u in range(n_background):
                _angles(a, b, c, d, first, (g * n_background + u) * p * step, p, step, cosines, sines)
                whole, late = (g * n + r) * step, (g * n_background + u) * step
                x, y = load_long(a_total, whole), load_long(b_total, whole)
                v, w = load_long(c_total, late), load_long(d_total, late)
                zero = spread(x, 0.0)
                one = spread(x, 1.0)
                of_mean, of_mean_2 = _times(x, y, v, w)
                end, end_2 = _times(x, y, v, subtract(zero, w))
                by_end = spread(x, ends[1])
                end, end_2 = multiply(by_end, end), multiply(by_end, end_2)
                x = one
                for j in range(p):
                    store(real, j * step, x)
                    x = multiply(x, load_long(cosines, j * step))
                x = spread(x, ends[0])
                for back in range(p):
                    j = p - 1 - back
                    cosine, sine = load_long(cosines, j * step), load_long(sines, j * step)
                    total = multiply_add(end, cosine, multiply(end_2, sine))
                    store(sums, j * step, multiply_add(load_long(real, j * step), x, total))
                    x = multiply(x, cosine)
                for q in range(0, nodes.size, 2):
                    t, t_2 = spread(zero, nodes[q]), spread(zero, nodes[q + 1])
                    x, y, x_2, y_2 = one, zero, one, zero
                    for j in range(p):
                        cosine, sine = load_long(cosines, j * step), load_long(sines, j * step)
                        store(real, j * step, x)
                        store(imaginary, j * step, y)
                        store(real_2, j * step, x_2)
                        store(imaginary_2, j * step, y_2)
                        x, y = _times(x, y, cosine, multiply(t, sine))
                        x_2, y_2 = _times(x_2, y_2, cosine, multiply(t_2, sine))
                    x, y, x_2, y_2 = spread(zero, weights[q]), zero, spread(zero, weights[q + 1]), zero
                    for back in range(p):
                        j = p - 1 - back
                        cosine, sine = load_long(cosines, j * step), load_long(sines, j * step)
                        total = multiply_add(load_long(real, j * step), x, load_long(sums, j * step))
                        total = multiply_add(load_long(real_2, j * step), x_2, total)
                        less = multiply_add(
                            load_long(imaginary_2, j * step), y_2, multiply(load_long(imaginary, j * step), y)
                        )
                        store(sums, j * step, subtract(total, less))
                        x, y = _times(x, y, cosine, multiply(t, sine))
                        x_2, y_2 = _times(x_2, y_2, cosine, multiply(t_2, sine))
                for j in range(p):
                    place = first + j * step
                    both = multiply(load_long(sums, j * step), load_long(sines, j * step))
                    store(of_cosine, place, multiply_add(both, of_mean, load_long(of_cosine, place)))
                    store(of_sine, place, multiply_add(both, of_mean_2, load_long(of_sine, place)))


@compiled
def pairs(rows, background, nodes, weights, scratch, sums, outs):
    """Add to both `outs` (G, n, p, p, L) the sums of `phase_pairs`; scratch is (4, p L), `sums` is (p p L)."""
    groups, n, p, _ = rows[0].shape
    n_background = background[0].shape[1]
    a, b, a_total, b_total = rows[0].reshape(-1), rows[1].reshape(-1), rows[2].reshape(-1), rows[3].reshape(-1)
    c, d = background[0].reshape(-1), background[1].reshape(-1)
    c_total, d_total = background[2].reshape(-1), background[3].reshape(-1)
    of_cosine, of_sine = outs[0].reshape(-1), outs[1].reshape(-1)
    cosines, sines, real, imaginary = scratch[0], scratch[1], scratch[2], scratch[3]
    step = lanes_of_long(cosines)
    for g in range(groups):
        for r in range(n):
            first = (g * n + r) * p * step
            for u in range(n_background):
                _angles(a, b, c, d, first, (g * n_background + u) * p * step, p, step, cosines, sines)
                whole, late = (g * n + r) * step, (g * n_background + u) * step
                x, y = load_long(a_total, whole), load_long(b_total, whole)
                v, w = load_long(c_total, late), load_long(d_total, late)
                zero = spread(x, 0.0)
                one = spread(x, 1.0)
                of_mean, of_mean_2 = _times(x, y, v, w)
                sums[:] = 0.0
                for q in range(nodes.size):
                    t = spread(zero, nodes[q])
                    x, y = spread(zero, weights[q]), zero
                    for back in range(p):
                        j = p - 1 - back
                        store(real, j * step, x)
                        store(imaginary, j * step, y)
                        sine = multiply(t, load_long(sines, j * step))
                        x, y = _times(x, y, load_long(cosines, j * step), sine)
                    before, before_2 = one, zero
                    for j in range(p):
                        x, y = before, before_2
                        for k in range(j + 1, p):
                            place = (j * p + k) * step
                            total = multiply_add(x, load_long(real, k * step), load_long(sums, place))
                            less = multiply(y, load_long(imaginary, k * step))
                            store(sums, place, subtract(total, less))
                            sine = multiply(t, load_long(sines, k * step))
                            x, y = _times(x, y, load_long(cosines, k * step), sine)
                        sine = multiply(t, load_long(sines, j * step))
                        before, before_2 = _times(before, before_2, load_long(cosines, j * step), sine)
                for j in range(p):
                    for k in range(j + 1, p):
                        both = multiply(load_long(sines, j * step), load_long(sines, k * step))
                        both = multiply(both, load_long(sums, (j * p + k) * step))
                        for place in (first * p + (j * p + k) * step, first * p + (k * p + j) * step):
                            store(of_cosine, place, multiply_add(both, of_mean, load_long(of_cosine, place)))
                            store(of_sine, place, multiply_add(both, of_mean_2, load_long(of_sine, place)))
