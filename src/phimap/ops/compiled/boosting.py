"""Growth of a decision tree, leaf by leaf, from sums of derivatives over bins, and derivatives of the log loss."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.jit import compiled


@compiled
def add_rows(rows, members, slopes, curvatures, sums):
    """Set sums (b, 3) to the slopes, the curvatures and the number of the members in each bin but the common ones."""
    sums[:] = 0.0
    for member in members:
        slope, curvature = slopes[member], curvatures[member]
        for entry in range(rows.entry_starts[member], rows.entry_starts[member + 1]):
            place = rows.entries[entry]
            sums[place, 0] += slope
            sums[place, 1] += curvature
            sums[place, 2] += 1.0


@compiled
def best_split(rows, sums, total, limits, best, left):
    """Return the gain of the split that lowers the loss most; set best (2,) and left (3,).

    best are the column and the place of the split, left the sums of the bins up to the place. The common bins of
    sums (b, 3) are set to the total of the leaf without the other bins of the column.
    """
    gain, slope, curvature, n = 0.0, total[0], total[1], total[2]
    without = slope * slope / (curvature + limits.penalty)
    for column in range(rows.common.shape[0]):
        start, stop, common = rows.bin_starts[column], rows.bin_starts[column + 1], rows.common[column]
        if common >= 0:
            sums[common] = 0.0
            g, h, m = slope, curvature, n
            for b in range(start, stop):
                g, h, m = g - sums[b, 0], h - sums[b, 1], m - sums[b, 2]
            sums[common, 0], sums[common, 1], sums[common, 2] = g, h, m
        g, h, m = 0.0, 0.0, 0.0
        for b in range(start, stop - 1):
            g, h, m = g + sums[b, 0], h + sums[b, 1], m + sums[b, 2]
            if m < limits.least_rows or h < limits.least_curvature:
                continue
            if n - m < limits.least_rows or curvature - h < limits.least_curvature:
                break
            g_right, h_right = slope - g, curvature - h
            found = g * g / (h + limits.penalty) + g_right * g_right / (h_right + limits.penalty) - without
            # An empty bin divides the rows as the bin before it. Its sums may be the rounding of a difference.
            if found > gain and sums[b, 2] != 0.0:
                gain = found
                best[0], best[1] = column, b - start
                left[0], left[1], left[2] = g, h, m
    return gain


@compiled
def divide(codes, place, members, spare):
    """Move the members with codes up to `place` to the front, in order; return their number."""
    n_left, n_right = 0, 0
    for member in members:
        if codes[member] <= place:
            members[n_left] = member
            n_left += 1
        else:
            spare[n_right] = member
            n_right += 1
    for i in range(n_right):
        members[n_left + i] = spare[i]
    return n_left


@compiled
def set_values(gradients, hessians, limits, members, values, sums):
    """Set values (t,) of a leaf with these members, and add them to sums (n, t); see the primitive."""
    gradient, hessian = np.zeros(values.shape[0]), np.zeros(values.shape[0])
    for member in members:
        for target in range(values.shape[0]):
            gradient[target] += gradients[member, target]
            hessian[target] += hessians[member, target]
    for target in range(values.shape[0]):
        values[target] = -limits.rate * gradient[target] / (hessian[target] + limits.penalty)
    for member in members:
        for target in range(values.shape[0]):
            sums[member, target] += values[target]


@compiled
def grow_tree(rows, slopes, curvatures, gradients, hessians, limits, sums):
    """Grow a tree and add the values of its leaves to sums (n, t); see the primitive."""
    n, most = slopes.shape[0], limits.n_leaves
    members, spare = np.arange(n).astype(np.int32), np.empty(n, np.int32)
    columns, places = np.empty(most, np.int32), np.empty(most, np.int32)
    children, values = np.empty((most, 2), np.int32), np.empty((most, gradients.shape[1]))
    # Of each leaf: its first and last member, its split and its side of it, its sums, and the sums in all bins.
    first, last, parents = np.zeros(most, np.int64), np.zeros(most, np.int64), np.full((most, 2), -1)
    totals, of_bins = np.zeros((most, 3)), np.empty((most, rows.bin_starts[-1], 3))
    # The best split of each leaf: gain, column and place, and the sums to its left.
    gains, best, lefts = np.zeros(most), np.zeros((most, 2), np.int64), np.zeros((most, 3))
    last[0] = n
    for i in range(n):
        totals[0, 0] += slopes[i]
        totals[0, 1] += curvatures[i]
        totals[0, 2] += 1.0
    add_rows(rows, members, slopes, curvatures, of_bins[0])
    gains[0] = best_split(rows, of_bins[0], totals[0], limits, best[0], lefts[0])
    n_leaves = 1
    while n_leaves < most:
        left, right = np.argmax(gains[:n_leaves]), n_leaves
        if gains[left] <= 0.0:
            break
        split, column, place = n_leaves - 1, best[left, 0], best[left, 1]
        columns[split], places[split] = column, place
        if split > 0:
            children[parents[left, 0], parents[left, 1]] = split
        parents[left, 0], parents[left, 1], parents[right, 0], parents[right, 1] = split, 0, split, 1
        n_left = divide(rows.codes[column], place, members[first[left] : last[left]], spare)
        first[right], last[right], last[left] = first[left] + n_left, last[left], first[left] + n_left
        for k in range(3):
            totals[right, k] = totals[left, k] - lefts[left, k]
            totals[left, k] = lefts[left, k]
        n_leaves += 1
        small, large = left, right
        if totals[left, 2] > totals[right, 2]:
            small, large = right, left
        gains[left], gains[right] = 0.0, 0.0
        if n_leaves == most or totals[large, 2] < 2 * limits.least_rows:
            continue
        # Only the rows of the smaller leaf are added up. The larger leaf has the rest of the sums of both.
        if large == right:
            of_bins[right, :, :] = of_bins[left]
        add_rows(rows, members[first[small] : last[small]], slopes, curvatures, of_bins[small])
        for b in range(of_bins.shape[1]):
            for k in range(3):
                of_bins[large, b, k] -= of_bins[small, b, k]
        for leaf in (left, right):
            if totals[leaf, 2] >= 2 * limits.least_rows:
                gains[leaf] = best_split(rows, of_bins[leaf], totals[leaf], limits, best[leaf], lefts[leaf])
    for leaf in range(n_leaves):
        set_values(gradients, hessians, limits, members[first[leaf] : last[leaf]], values[leaf], sums)
        if n_leaves > 1:
            children[parents[leaf, 0], parents[leaf, 1]] = -1 - leaf
    n_splits = n_leaves - 1
    return columns[:n_splits].copy(), places[:n_splits].copy(), children[:n_splits].copy(), values[:n_leaves].copy()


@compiled
def class_derivatives(exponentials, totals, labels, gradients, hessians):
    """Set gradients and hessians (n, t) of the log loss; see the primitive."""
    one = totals.dtype.type(1)
    for i in range(exponentials.shape[0]):
        factor = one / totals[i]
        for target in range(exponentials.shape[1]):
            probability = exponentials[i, target] * factor
            gradients[i, target] = probability
            hessians[i, target] = probability * (one - probability)
        gradients[i, labels[i]] -= one
