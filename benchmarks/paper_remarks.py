"""Remarks on the page of the papers: where our results agree with the published ones.

The sentences are computed from the findings of a run, so that they hold for the figures shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

Findings = Sequence[Mapping[str, str]]

_NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
ZANDIEH, HAN, LIU, ALI = "Zandieh et al. (2021)", "Han et al. (2021)", "Liu et al. (2021)", "Ali et al. (2022)"


def numbers(text: str) -> list[float]:
    """Return the numbers of a cell in their order."""
    return [float(one.replace(",", "")) for one in re.findall(_NUMBER, text)]


def named(text: str) -> dict[str, float]:
    """Return the numbers of a cell like ``trf 83.5; rff 82.7`` by name."""
    parts = [one.rpartition(" ") for one in text.split("; ")]
    return {name: float(value) for name, _, value in parts}


def listed(words: Iterable[str]) -> str:
    """Join words by commas and a final "and"."""
    words = list(words)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def published(findings: Findings) -> list[Mapping[str, str]]:
    """Return the findings that stand beside a published result."""
    return [one for one in findings if one["published"] != "-"]


#: What stands beside our accuracies for given bytes by model, and the size of that experiment. The recorded findings
#: have one text for all models, and no size.
_BY_BYTES = {
    "ridge": (
        "Figure 4, Census: ternary has the least squared error for given bytes (a plot)",
        "16,000 training and 2,000 test rows of 119 columns, m = 500 to 50,000",
    ),
    "logistic": (
        "Figure 1, Cov-Type: ternary best for given bytes (a plot)",
        "418,000 training and 116,000 test rows of 54 columns, m = 100 to 50,000",
    ),
    "svm": ("-", "-"),
}


#: What the text of Zandieh et al. (2021) says of Figure 2a, a plot without numbers, by method. The recorded findings
#: have numbers that were read off the plot.
_FIGURE_2A = {
    "NTKRF": "best of the three (a plot)",
    "NTKSketch": "narrowly behind NTKRF (a plot)",
    "GradRF": "worst of the three (a plot)",
}


def shown(finding: Mapping[str, str]) -> dict[str, str]:
    """Return a finding as the page shows it, with a published result that the text of the paper supports.

    Accuracies for given bytes stand beside the figure of their model. Figure 2a of Zandieh et al. (2021) has an order.
    """
    cells = dict(finding)
    figure, _, name = finding["place"].rpartition(", ")
    if finding["paper"] == ALI and finding["place"].startswith("like Figures 1 and 4, "):
        cells["published"], cells["published_size"] = _BY_BYTES[name]
    if (finding["paper"], figure) == (ZANDIEH, "Figure 2a"):
        cells["published"] = _FIGURE_2A.get(name, finding["published"])
    return cells


def _last(place: str) -> str:
    return place.rpartition(", ")[2]


def _orders(findings: Findings, names: Callable[[str], str], descending: bool) -> str:
    """State the order of the methods by the first number, ours and the published one."""
    both = published(findings)

    def order(key: str) -> str:
        chosen = sorted(both, key=lambda one: numbers(one[key])[0], reverse=descending)
        return ", ".join(f"{names(one['place'])} {numbers(one[key])[0]:g}" for one in chosen)

    ours, theirs = order("ours"), order("published")
    if len(both) == 1:
        return f"Here: {ours}; published: {theirs}."
    return f"From best to worst, here: {ours}; published: {theirs}."


def _missed(findings: Findings) -> str:
    draws = [pair for one in findings for pair in re.findall(r"\((\d+) of (\d+)\)", one["ours"])]
    missed, total = (sum(int(pair[side]) for pair in draws) for side in (0, 1))
    return f"{missed} of {total:,} draws with the promised number of features miss epsilon."


def _bounds(findings: Findings) -> str:
    taylor = [one for one in findings if "Taylor" in one["quantity"]]
    words = _missed(findings)
    if taylor:
        largest = max(number for one in taylor for number in numbers(one["ours"]))
        words += f" The errors of the polynomials are at most {largest:.2f} of the bound."
    if any(one["place"] == "Theorem 7" for one in findings):
        words += (
            " The numbers of Theorem 7 are those of its branch with the norm of X; on these rows its printed minimum "
            "is the branch with the rank, which asks for fewer features and is not used."
        )
    return words


def _levels(findings: Findings) -> str:
    left = [one for one in findings if "left" in one["place"]]
    levels = {_last(one["place"]): numbers(one["ours"])[0] for one in left}
    near = [depth for depth, level in levels.items() if abs(level - 0.3) <= 0.03]
    far = [f"{level:.2f} at {depth}" for depth, level in levels.items() if depth not in near]
    return f"The level of 0.3 holds at {listed(near)}" + (
        f", and not for shallow networks: {listed(far)}." if far else "."
    )


def _mnist(findings: Findings) -> str:
    found = {_last(one["place"]): numbers(one["ours"])[0] for one in published(findings)}
    order = sorted(found, key=lambda name: -found[name])
    words = f"From best to worst, here: {', '.join(f'{name} {found[name]:.2f}' for name in order)}. "
    same = order == ["NTKRF", "NTKSketch", "GradRF"]
    return words + ("This is the published order." if same else "Published: NTKRF, NTKSketch, GradRF.")


def _cntk(findings: Findings) -> str:
    widest = {
        name: max(found, key=lambda one: numbers(one["place"])[-1])
        for name in ("GradRF", "CNTKSketch", "CNN")
        if (found := [one for one in published(findings) if name in one["place"]])
    }
    gradient = widest.pop("GradRF")
    ours, theirs = (numbers(gradient[key])[0] for key in ("ours", "published"))
    words = [
        f"{name} is {numbers(one['ours'])[0] - ours:+.2f} from GradRF here, and "
        f"{numbers(one['published'])[0] - theirs:+.2f} in the paper."
        for name, one in widest.items()
    ]
    if not words:
        words.append(f"GradRF with {_last(gradient['place'])} is {ours - theirs:+.2f} from the paper's.")
    more = numbers(gradient["published_size"])[0] / numbers(gradient["size"])[0]
    return " ".join(words) + (f" The paper has {more:g} times as many training images." if more > 1 else "")


def _regression(findings: Findings) -> str:
    words = _orders(findings, _last, descending=False)
    if any(numbers(one["published"])[0] > PROTEIN_VARIANCE for one in published(findings)):
        words += (
            f" The published errors exceed the variance of the target in the file, {PROTEIN_VARIANCE:g}: a constant "
            "would err less, so that they are hardly in its unit."
        )
    words += " Published seconds are those of the entire regression."
    if findings[0]["paper"] == HAN:
        words += " The rows of the paper are training rows, ours are training and test rows together."
    return words


#: Variance of the target of the protein set.
PROTEIN_VARIANCE = 37.43


def _greedy(findings: Findings) -> str:
    pairs = {_last(one["place"]): numbers(one["ours"]) for one in findings}
    below = [f"{labels} ({greedy:g}, {rand:g})" for labels, (greedy, rand) in pairs.items() if greedy <= rand]
    words = f"The greedy design is above random rows at all {len(pairs)} numbers of labels."
    if below:
        words = f"The greedy design is above random rows, but not at {listed(below)}."
    return (
        f'{words} The text of the paper states no numbers of labels: it claims "much better designs than randomly '
        'chosen data points" of its plot.'
    )


def _gibbs(findings: Findings) -> str:
    found = {one["place"].partition(", ")[2]: named(one["ours"]) for one in findings}
    below = [place for place, one in found.items() if one["gibbs"] < 0.98 * one["gaussian"]]
    others = [f"{place} ({one['gibbs']:g}, {one['gaussian']:g})" for place, one in found.items() if place not in below]
    words = f"Gibbs sampling lowers the condition number by more than 2 % in {len(below)} of {len(found)} rows"
    words += f"; not for {listed(others)}." if others else ", as published."
    return words + " The paper does not name its three sets, so that ours may be others."


def _kernel_errors(findings: Findings) -> str:
    compared = ("gradient features", "explicit products", "sketched, mean over m_cs / m")
    least, most = {}, {}
    for one in findings:
        found, depth = named(one["ours"]), _last(one["place"])
        least.setdefault(min(compared, key=found.__getitem__), []).append(depth)
        most.setdefault(max(compared, key=found.__getitem__), []).append(depth)
    ends = (
        "; ".join(f"{name.partition(',')[0]} at {listed(where)}" for name, where in one.items())
        for one in (least, most)
    )
    return "Of the published methods, least error: {}; most: {}. Published: sketched least, gradient most.".format(
        *ends
    )


def _uci(findings: Findings) -> str:
    words = _orders(findings, _last, descending=True)
    both = {_last(one["place"]): [numbers(one[key])[0] for key in ("ours", "published")] for one in published(findings)}
    pair = "NTK random features", "random Fourier features"
    if both.keys() >= set(pair):
        (ntk, ntk_there), (fourier, fourier_there) = (both[name] for name in pair)
        words += (
            f" NTK random features are {abs(ntk - fourier):.2f} {'above' if ntk > fourier else 'below'} random Fourier "
            f"features here, and {abs(ntk_there - fourier_there):.2f} "
            f"{'above' if ntk_there > fourier_there else 'below'} in the paper."
        )
    return words


def _winners(findings: Findings) -> str:
    """State the rows in which none of our best methods of the survey is a published one."""
    shared, other, unclear = [], [], []
    for one in published(findings):
        ours, theirs = (
            set(text.partition(" (")[0].split(", ")) for text in (one["ours"].partition(";")[0], one["published"])
        )
        place = one["place"].partition(", ")[2]
        if one["published"].startswith("no "):
            unclear.append(f"{place} ({', '.join(sorted(ours))})")
        elif ours & theirs:
            shared.append(place)
        else:
            other.append(f"{place} ({', '.join(sorted(ours))} here)")
    words = f"A published winner is among ours in {len(shared)} of {len(shared) + len(other)} rows"
    words += f"; not for {'; '.join(other)}." if other else "."
    if unclear:
        words += f" Where the survey has no significant difference, there is one here: {'; '.join(unclear)}."
    if other or unclear:
        words += " Possible reasons are in [Experiments](howto/benchmarks.md#approximation-classification)."
    return words


def _alike(findings: Findings) -> str:
    gaps = {
        one["place"].partition(", ")[2]: high - low
        for one in published(findings)
        for low, high in [numbers(re.sub(r"\(.*?\)", "", one["ours"]))]
    }
    above = [place for place, gap in gaps.items() if round(gap, 1) > _ALIKE]
    words = f"On the Gaussian kernel the best method is {listed(f'{gap:.1f}' for gap in gaps.values())} points above "
    words += "the least. "
    if above:
        words += f'"Most methods alike" does not hold to within one point on {"; ".join(above)}. '
    else:
        words += '"Most methods alike" holds to within one point. '
    return words + "The survey has s = 2d, 4d, 16d and 32d directions."


#: Difference of accuracies in points up to which methods count as alike.
_ALIKE = 1.0


def _descent(findings: Findings) -> str:
    low_at_peak = []
    for one in findings:
        if "median test error" in one["quantity"]:
            few, peak, many = numbers(one["ours"])
            if peak <= max(few, many):
                low_at_peak.append(_last(one["place"]))
    shape = "The test error peaks at one feature a row"
    shape += (
        f", but not on {listed(low_at_peak)}." if low_at_peak else " on every task, also on the two published ones."
    )
    if any(_last(one["place"]) == "sonar" for one in findings):
        shape += (
            " The survey states n = 208, all rows of sonar; here these rows are split into halves for training and "
            "test."
        )
    ratios = [number for one in findings if "predicted" in one["quantity"] for number in numbers(one["ours"])]
    return f"{shape} Predictions are {min(ratios):.3f} to {max(ratios):.3f} of the measured means." if ratios else shape


def _formulas(findings: Findings) -> str:
    unbiased = [one for one in published(findings) if one["published"].startswith("1")]
    ratios = [number for one in unbiased for number in numbers(one["ours"].partition(";")[0])]
    words = f"Simulated variances are {min(ratios):.2f} to {max(ratios):.2f} of the formulas. {_missed(findings)}"
    if any("offsets" in one["place"] for one in findings):
        words += (
            " The survey prints no variance with offsets, and of ORF an approximate ratio for many columns: these "
            "three formulas are ours."
        )
    return words


def _spectra(findings: Findings) -> str:
    found = {_last(one["place"]): numbers(one["ours"]) for one in findings}
    gaps, overlaps = zip(*found.values(), strict=True)
    return (
        f"The matrices differ by {min(gaps):.1%} to {max(gaps):.1%} of their norm, the overlaps are at least "
        f"{min(overlaps):.4f}. Gaussian draws differ from the equivalent by {found['relu-gaussian-draws'][0]:.1%} and "
        f"Student draws by {found['relu-student-draws'][0]:.1%}: the law makes little difference, as published."
    )


def _path(findings: Findings) -> str:
    words, gaps, differences = [], {}, {}
    for one in findings:
        _, fourier, least, most = numbers(one["ours"])
        words.append(f"{one['place'].partition(',')[0]} {least / fourier - 1:+.0%} to {most / fourier - 1:+.0%}")
        difference = (least + most) / 2 - fourier
        differences.setdefault(_last(one["place"]), []).append(difference)
        gaps.setdefault(_last(one["place"]), []).append(abs(difference) / fourier)
    shapes = (f"{'falls' if gap[-1] < gap[0] else 'grows'} with m on {name}" for name, gap in gaps.items())
    ends = (f"from {one[0]:+.4f} to {one[-1]:+.4f} on {name}" for name, one in differences.items())
    return (
        f"Least errors of ternary features over those of Fourier features: {', '.join(words)}. The gap, relative to "
        f"Fourier features, {listed(shapes)}; as a difference of squared errors, at the middle of the sparsities, it "
        f"goes {listed(ends)}. The publication claims that it falls on both, and that it is virtually none in Figure 3."
    )


def _footprint(findings: Findings) -> str:
    words = []
    for which, name, claim in (
        (
            "bytes",
            "Of given bytes",
            "ternary best, on Cov-Type with logistic regression and on Census with ridge regression",
        ),
        ("SVM", "With given numbers of features", "ternary best"),
    ):
        rows = [one for one in findings if which in one["quantity"]]
        above, ties = [], 0
        for one in rows:
            found = named(one["ours"])
            first = max(found, key=found.__getitem__)
            ties += first == "trf" and sum(value == found["trf"] for value in found.values()) > 1
            if first != "trf":
                above.append(f"{one['place'].partition(', ')[2]} ({first} {found[first]:g}, trf {found['trf']:g})")
        if rows:
            kept = f"{name}, ternary features are best in {len(rows) - len(above)} of {len(rows)} rows"
            kept += f" ({ties} of them level with another)" if ties else ""
            words.append(kept + (f", and not on {'; '.join(above)}" if above else "") + f". Published: {claim}.")
        if rows and which == "bytes":
            words.append(
                "The paper has no support vector machine by bytes, and squared errors in place of our accuracies of "
                "ridge regression. "
                "Each method has the largest of its numbers of features that these bytes hold: the numbers m, in the "
                "order of the methods. A ternary feature takes 2 bits here; the paper counts 1."
            )
        if rows and which == "SVM":
            words.append("Logarithms are natural here; the paper does not state the base of its own.")
    return " ".join(words)


#: Functions of a run's findings for a paper that say where they agree with the paper, by experiment and paper.
AGREEMENT: Mapping[tuple[str, str], Callable[[Findings], str]] = {
    ("theory", ZANDIEH): _bounds,
    ("ntk-function", ZANDIEH): _levels,
    ("ntk-mnist", ZANDIEH): _mnist,
    ("cntk-cifar10", ZANDIEH): _cntk,
    ("ntk-uci-regression", ZANDIEH): _regression,
    ("theory", HAN): _bounds,
    ("active-learning", HAN): _greedy,
    ("ntk-spectral", HAN): _gibbs,
    ("ntk-error", HAN): _kernel_errors,
    ("ntk-uci-classification", HAN): _uci,
    ("ntk-uci-regression", HAN): _regression,
    ("approximation", LIU): _winners,
    ("classification", LIU): _alike,
    ("double-descent", LIU): _descent,
    ("theory", LIU): _formulas,
    ("spectra", ALI): _spectra,
    ("footprint-path", ALI): _path,
    ("footprint", ALI): _footprint,
}


def agreement(experiment: str, paper: str, findings: Findings) -> str:
    """Return the sentences beside a table, or "" if the table holds no published result."""
    return AGREEMENT[experiment, paper](findings) if published(findings) else ""
