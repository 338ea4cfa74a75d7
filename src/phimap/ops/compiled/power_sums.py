"""Power series in cosines whose coefficients are products."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled


@compiled
def power_sums(left, right, cosine, out):
    """Set `out` (r, h, w) to ``sum_k left_k right_k cosine^k`` for left and right (r, h, w, K) with any strides.

    O(r h w K) operations. The series is split into four independent Horner recursions in the cosine's fourth power,
    because each step of a single recursion would wait for the result of the step before.
    """
    n_rows, height, width, n_terms = left.shape
    whole = n_terms - n_terms % 4
    for r in range(n_rows):
        for i in range(height):
            for j in range(width):
                of_left, of_right, c = left[r, i, j], right[r, i, j], cosine[r, i, j]
                square = c * c
                fourth = square * square
                first = second = third = last = c - c
                # The terms after the last multiple of four start the first recursion, because they have the highest
                # powers.
                for k in range(n_terms - 1, whole - 1, -1):
                    first = first * c + of_left[k] * of_right[k]
                for k in range(whole - 4, -1, -4):
                    first = first * fourth + of_left[k] * of_right[k]
                    second = second * fourth + of_left[k + 1] * of_right[k + 1]
                    third = third * fourth + of_left[k + 2] * of_right[k + 2]
                    last = last * fourth + of_left[k + 3] * of_right[k + 3]
                out[r, i, j] = (first + square * third) + c * (second + square * last)
