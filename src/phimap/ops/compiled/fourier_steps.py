"""Steps of Fourier transforms on sequences of complex vectors, in place.

A sequence x stores each entry as a vector of real parts followed by a vector of imaginary parts. A forward step of
radix R transforms the entries i, i + m, ..., i + (R - 1) m and multiplies all but the first by twiddle factors, R - 1
pairs of `twiddles` from t on. An inverse step multiplies by the conjugate factors and applies the unnormalised inverse
transform. It is computed as a forward step on exchanged real and imaginary parts with the factors applied first. If all
factors are 1, `twiddles` is None.
"""

from __future__ import annotations

from phimap.ops.compiled.jit import inlined
from phimap.ops.compiled.vectors import (
    add,
    broadcast,
    lanes_of,
    load,
    multiply,
    multiply_add,
    multiply_subtract,
    spread,
    store,
    subtract,
)

# sin(2 pi / 3), and cosines and sines of 2 pi / 5 and 4 pi / 5.
_HEIGHT = 0.8660254037844386
_COS_1, _COS_2 = 0.30901699437494742, -0.80901699437494742
_SIN_1, _SIN_2 = 0.95105651629515357, 0.58778525229247313


@inlined
def times(a, p, b, q):
    """Return the parts of ``(a + i p) (b + i q)``."""
    return multiply_subtract(a, b, multiply(p, q)), multiply_add(a, q, multiply(p, b))


@inlined
def _get(x, i):
    """Return the real and imaginary parts of entry i."""
    lanes = lanes_of(x)
    return load(x, 2 * lanes * i), load(x, 2 * lanes * i + lanes)


@inlined
def _put(x, i, a, p):
    """Set the real and imaginary parts of entry i to a and p."""
    lanes = lanes_of(x)
    store(x, 2 * lanes * i, a)
    store(x, 2 * lanes * i + lanes, p)


@inlined
def _put_turned(x, i, a, p, twiddles, t):
    """Set entry i to ``(a + i p)`` times the twiddle factor at t."""
    if twiddles is None:
        _put(x, i, a, p)
        return
    a, p = times(a, p, broadcast(twiddles[t]), broadcast(twiddles[t + 1]))
    _put(x, i, a, p)


@inlined
def _get_turned(x, i, twiddles, t):
    """Return entry i with its real and imaginary parts exchanged, multiplied by the twiddle factor at t."""
    p, a = _get(x, i)
    if twiddles is None:
        return a, p
    return times(a, p, broadcast(twiddles[t]), broadcast(twiddles[t + 1]))


@inlined
def _two(a, p, b, q):
    """Return the transform of the two numbers a + i p and b + i q."""
    return add(a, b), add(p, q), subtract(a, b), subtract(p, q)


@inlined
def _turned_pair(a, p, b, q):
    """Return the parts of ``(a + i p) - i (b + i q)`` and ``(a + i p) + i (b + i q)``."""
    return add(a, q), subtract(p, b), subtract(a, q), add(p, b)


@inlined
def _three(a, p, b, q, c, r):
    """Return the transform of three numbers, given as real and imaginary parts in turn."""
    b, q, c, r = _two(b, q, c, r)
    half, height = spread(a, -0.5), spread(a, _HEIGHT)
    middle, middle_imag = multiply_add(half, b, a), multiply_add(half, q, p)
    one, one_imag, two, two_imag = _turned_pair(middle, middle_imag, multiply(height, c), multiply(height, r))
    return add(a, b), add(p, q), one, one_imag, two, two_imag


@inlined
def _four(a, p, b, q, c, r, d, s):
    """Return the transform of four numbers, given as real and imaginary parts in turn."""
    a, p, c, r = _two(a, p, c, r)
    b, q, d, s = _two(b, q, d, s)
    zero, zero_imag, two, two_imag = _two(a, p, b, q)
    one, one_imag, three, three_imag = _turned_pair(c, r, d, s)
    return zero, zero_imag, one, one_imag, two, two_imag, three, three_imag


@inlined
def _five(a, p, b, q, c, r, d, s, e, t):
    """Return the transform of five numbers, given as real and imaginary parts in turn."""
    b, q, e, t = _two(b, q, e, t)
    c, r, d, s = _two(c, r, d, s)
    cos_1, cos_2, sin_1, sin_2 = spread(a, _COS_1), spread(a, _COS_2), spread(a, _SIN_1), spread(a, _SIN_2)
    zero, zero_imag = add(a, add(b, c)), add(p, add(q, r))
    m = multiply_add(cos_2, c, multiply_add(cos_1, b, a))
    m_imag = multiply_add(cos_2, r, multiply_add(cos_1, q, p))
    n, n_imag = multiply_add(sin_1, e, multiply(sin_2, d)), multiply_add(sin_1, t, multiply(sin_2, s))
    one, one_imag, four, four_imag = _turned_pair(m, m_imag, n, n_imag)
    m = multiply_add(cos_1, c, multiply_add(cos_2, b, a))
    m_imag = multiply_add(cos_1, r, multiply_add(cos_2, q, p))
    n, n_imag = multiply_subtract(sin_2, e, multiply(sin_1, d)), multiply_subtract(sin_2, t, multiply(sin_1, s))
    two, two_imag, three, three_imag = _turned_pair(m, m_imag, n, n_imag)
    return zero, zero_imag, one, one_imag, two, two_imag, three, three_imag, four, four_imag


@inlined
def _forward_2(x, i, m, twiddles, t):
    """Apply the forward step of radix 2 to the entries i and i + m of x."""
    a, p = _get(x, i)
    b, q = _get(x, i + m)
    a, p, b, q = _two(a, p, b, q)
    _put(x, i, a, p)
    _put_turned(x, i + m, b, q, twiddles, t)


@inlined
def _forward_3(x, i, m, twiddles, t):
    """Apply the forward step of radix 3 to the entries i, i + m and i + 2 m of x."""
    a, p = _get(x, i)
    b, q = _get(x, i + m)
    c, r = _get(x, i + 2 * m)
    a, p, b, q, c, r = _three(a, p, b, q, c, r)
    _put(x, i, a, p)
    _put_turned(x, i + m, b, q, twiddles, t)
    _put_turned(x, i + 2 * m, c, r, twiddles, t + 2)


@inlined
def _forward_4(x, i, m, twiddles, t):
    """Apply the forward step of radix 4 to the entries i, i + m, ..., i + 3 m of x."""
    a, p = _get(x, i)
    b, q = _get(x, i + m)
    c, r = _get(x, i + 2 * m)
    d, s = _get(x, i + 3 * m)
    a, p, b, q, c, r, d, s = _four(a, p, b, q, c, r, d, s)
    _put(x, i, a, p)
    _put_turned(x, i + m, b, q, twiddles, t)
    _put_turned(x, i + 2 * m, c, r, twiddles, t + 2)
    _put_turned(x, i + 3 * m, d, s, twiddles, t + 4)


@inlined
def _forward_5(x, i, m, twiddles, t):
    """Apply the forward step of radix 5 to the entries i, i + m, ..., i + 4 m of x."""
    a, p = _get(x, i)
    b, q = _get(x, i + m)
    c, r = _get(x, i + 2 * m)
    d, s = _get(x, i + 3 * m)
    e, v = _get(x, i + 4 * m)
    a, p, b, q, c, r, d, s, e, v = _five(a, p, b, q, c, r, d, s, e, v)
    _put(x, i, a, p)
    _put_turned(x, i + m, b, q, twiddles, t)
    _put_turned(x, i + 2 * m, c, r, twiddles, t + 2)
    _put_turned(x, i + 3 * m, d, s, twiddles, t + 4)
    _put_turned(x, i + 4 * m, e, v, twiddles, t + 6)


@inlined
def _inverse_2(x, i, m, twiddles, t):
    """Apply the inverse step of radix 2 to the entries i and i + m of x."""
    p, a = _get(x, i)
    b, q = _get_turned(x, i + m, twiddles, t)
    a, p, b, q = _two(a, p, b, q)
    _put(x, i, p, a)
    _put(x, i + m, q, b)


@inlined
def _inverse_3(x, i, m, twiddles, t):
    """Apply the inverse step of radix 3 to the entries i, i + m and i + 2 m of x."""
    p, a = _get(x, i)
    b, q = _get_turned(x, i + m, twiddles, t)
    c, r = _get_turned(x, i + 2 * m, twiddles, t + 2)
    a, p, b, q, c, r = _three(a, p, b, q, c, r)
    _put(x, i, p, a)
    _put(x, i + m, q, b)
    _put(x, i + 2 * m, r, c)


@inlined
def _inverse_4(x, i, m, twiddles, t):
    """Apply the inverse step of radix 4 to the entries i, i + m, ..., i + 3 m of x."""
    p, a = _get(x, i)
    b, q = _get_turned(x, i + m, twiddles, t)
    c, r = _get_turned(x, i + 2 * m, twiddles, t + 2)
    d, s = _get_turned(x, i + 3 * m, twiddles, t + 4)
    a, p, b, q, c, r, d, s = _four(a, p, b, q, c, r, d, s)
    _put(x, i, p, a)
    _put(x, i + m, q, b)
    _put(x, i + 2 * m, r, c)
    _put(x, i + 3 * m, s, d)


@inlined
def _inverse_5(x, i, m, twiddles, t):
    """Apply the inverse step of radix 5 to the entries i, i + m, ..., i + 4 m of x."""
    p, a = _get(x, i)
    b, q = _get_turned(x, i + m, twiddles, t)
    c, r = _get_turned(x, i + 2 * m, twiddles, t + 2)
    d, s = _get_turned(x, i + 3 * m, twiddles, t + 4)
    e, v = _get_turned(x, i + 4 * m, twiddles, t + 6)
    a, p, b, q, c, r, d, s, e, v = _five(a, p, b, q, c, r, d, s, e, v)
    _put(x, i, p, a)
    _put(x, i + m, q, b)
    _put(x, i + 2 * m, r, c)
    _put(x, i + 3 * m, s, d)
    _put(x, i + 4 * m, v, e)


@inlined
def forward_step(x, i, m, radix, twiddles, t):
    """Apply the forward step of `radix` to the entries i, i + m, i + 2 m, ... of x."""
    if radix == 4:
        _forward_4(x, i, m, twiddles, t)
    elif radix == 2:
        _forward_2(x, i, m, twiddles, t)
    elif radix == 3:
        _forward_3(x, i, m, twiddles, t)
    else:
        _forward_5(x, i, m, twiddles, t)


@inlined
def inverse_step(x, i, m, radix, twiddles, t):
    """Apply the inverse step of `radix` to the entries i, i + m, i + 2 m, ... of x."""
    if radix == 4:
        _inverse_4(x, i, m, twiddles, t)
    elif radix == 2:
        _inverse_2(x, i, m, twiddles, t)
    elif radix == 3:
        _inverse_3(x, i, m, twiddles, t)
    else:
        _inverse_5(x, i, m, twiddles, t)
