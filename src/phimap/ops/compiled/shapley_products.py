"""Shapley sums of products of real factors, see `phimap.ops.primitives.shapley_sums`.

A lane of a vector is a term. For every group of terms, explained row and background row, the products of all
players but one are prefix products times suffix products. The nodes t and -t share the product ``t h``. The scratch
arrays of `shapley` take 6.25 KiB for 20 players and stay in the L1 cache.
"""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import add, lanes_of_long, load_long, multiply, multiply_add, spread, store, subtract


@inlined
def _mixture(a, c, first, other, p, step, middle, half):
    """Write the means and half differences of p factors, which start at `first` in a and at `other` in c."""
    by_half = spread(load_long(a, first), 0.5)
    for j in range(p):
        x, y = load_long(a, first + j * step), load_long(c, other + j * step)
        store(middle, j * step, multiply(by_half, add(x, y)))
        store(half, j * step, multiply(by_half, subtract(x, y)))


@compiled
def shapley(rows, background, nodes, weights, scratch, out):
    """Add to `out` (G, n, p, L) the sums of `product_shapley`; scratch is (5, p L)."""
    groups, n, p, _ = rows.shape
    n_background = background.shape[1]
    a, c, target = rows.reshape(-1), background.reshape(-1), out.reshape(-1)
    middle, half, sums, plus, minus = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    step = lanes_of_long(a)
    for g in range(groups):
        for r in range(n):
            first = (g * n + r) * p * step
            for u in range(n_background):
                _mixture(a, c, first, (g * n_background + u) * p * step, p, step, middle, half)
                sums[:] = 0.0
                zero = spread(load_long(a, first), 0.0)
                one = spread(zero, 1.0)
                for q in range(nodes.size):
                    t = spread(zero, nodes[q])
                    up, down = one, one
                    for j in range(p):
                        m, h = load_long(middle, j * step), multiply(t, load_long(half, j * step))
                        store(plus, j * step, up)
                        store(minus, j * step, down)
                        up, down = multiply(up, add(m, h)), multiply(down, subtract(m, h))
                    up = spread(zero, weights[q])
                    down = up
                    for back in range(p):
                        j = p - 1 - back
                        m, h = load_long(middle, j * step), multiply(t, load_long(half, j * step))
                        total = multiply_add(load_long(plus, j * step), up, load_long(sums, j * step))
                        store(sums, j * step, multiply_add(load_long(minus, j * step), down, total))
                        up, down = multiply(up, add(m, h)), multiply(down, subtract(m, h))
                for j in range(p):
                    place = first + j * step
                    total = multiply_add(load_long(sums, j * step), load_long(half, j * step), load_long(target, place))
                    store(target, place, total)


@compiled
def pairs(rows, background, nodes, weights, scratch, sums, out):
    """Add to `out` (G, n, p, p, L) the sums of `product_pairs`; scratch is (6, p L), `sums` is (p p L)."""
    groups, n, p, _ = rows.shape
    n_background = background.shape[1]
    a, c, target = rows.reshape(-1), background.reshape(-1), out.reshape(-1)
    middle, half, plus, minus = scratch[0], scratch[1], scratch[2], scratch[3]
    after_plus, after_minus = scratch[4], scratch[5]
    step = lanes_of_long(a)
    for g in range(groups):
        for r in range(n):
            first = (g * n + r) * p * step
            for u in range(n_background):
                _mixture(a, c, first, (g * n_background + u) * p * step, p, step, middle, half)
                zero = spread(load_long(a, first), 0.0)
                one = spread(zero, 1.0)
                sums[:] = 0.0
                for q in range(nodes.size):
                    t = spread(zero, nodes[q])
                    up = spread(zero, weights[q])
                    down = up
                    for back in range(p):
                        j = p - 1 - back
                        m, h = load_long(middle, j * step), multiply(t, load_long(half, j * step))
                        store(after_plus, j * step, up)
                        store(after_minus, j * step, down)
                        m, h = add(m, h), subtract(m, h)
                        store(plus, j * step, m)
                        store(minus, j * step, h)
                        up, down = multiply(up, m), multiply(down, h)
                    up, down = one, one
                    for j in range(p):
                        of_plus, of_minus = up, down
                        for k in range(j + 1, p):
                            place = (j * p + k) * step
                            total = multiply_add(of_plus, load_long(after_plus, k * step), load_long(sums, place))
                            store(sums, place, multiply_add(of_minus, load_long(after_minus, k * step), total))
                            of_plus = multiply(of_plus, load_long(plus, k * step))
                            of_minus = multiply(of_minus, load_long(minus, k * step))
                        up = multiply(up, load_long(plus, j * step))
                        down = multiply(down, load_long(minus, j * step))
                for j in range(p):
                    twice = add(load_long(half, j * step), load_long(half, j * step))
                    for k in range(j + 1, p):
                        both = multiply(multiply(twice, load_long(half, k * step)), load_long(sums, (j * p + k) * step))
                        place, mirrored = (first * p) + (j * p + k) * step, (first * p) + (k * p + j) * step
                        store(target, place, add(load_long(target, place), both))
                        store(target, mirrored, add(load_long(target, mirrored), both))
