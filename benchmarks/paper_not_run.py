"""What the papers measure and the page of the papers does not, each with the reason and a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paper_remarks import HAN, LIU, ZANDIEH

from phimap.bench import cntk
from phimap.bench.ntk import classification, low_shot, regression


def _no_file(command: str) -> str:
    return f"the set is in no file at hand; `phimap bench {command}`"


def _regressions(paper: str, sets: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    [(m, by_set)] = [(m, by_set) for (name, m), by_set in regression.PUBLISHED.items() if name == paper]
    for name in sets:
        cells = "; ".join(f"{regression._NAMES[method]} {mse:,g}" for method, (mse, _) in by_set[name].items())
        why = _no_file(f"ntk-uci-regression --sets {name} --rows 500000 --features {m} --data DIR")
        yield f"Table 2, {name}, mean squared errors", cells, why


#: Names of the methods of Table 3 of Han et al. (2021).
_LOW_SHOT = {
    "linear": "linear classifier",
    "neighbours": "k-nearest neighbours",
    "adaboost": "AdaBoost",
    "forest": "random forest",
    "linear-svm": "linear SVM",
    "rbf": "RBF kernel",
    "rff": "random Fourier features",
    "ntk": "NTK",
    "published-countsketch": "NTK random features",
    "published-gibbs": "NTK random features with Gibbs sampling",
}


def not_run(paper: str) -> Iterator[tuple[str, str, str]]:
    """Yield what a paper measures and this page does not: place, published result, and why with the command for it."""
    if paper == ZANDIEH:
        yield "Figure 2a, exact NTK", "a plot", "memory: the kernel matrix of 60,000 rows takes 29 GB"
        yield (
            "Figure 2a, m above 8,192",
            "a plot, its axis marked at 1,000, 10,000 and 100,000 features",
            "hours of a processor; `phimap bench ntk-mnist --rows 60000 --features 16384,32768 --data DIR`",
        )
        widths = {"sketch": (4096, 8192, 16384), "gradient": (17040, 42816), "cnn": (0,), "exact": (0,)}
        for method, chosen in widths.items():
            cells = [
                f"{accuracy:.2f}" + (f" at {m:,}" if m else "")
                for name, m, accuracy, _ in cntk.PUBLISHED
                if name == method and m in chosen
            ]
            why = {
                "sketch": "three hours of a core for 4,096 features, more for others; "
                "`phimap bench cntk-cifar10 --methods sketch --rows 50000 --features 4096,8192,16384 --data DIR`",
                "gradient": "hours of a processor; `phimap bench cntk-cifar10 --methods gradient --rows 50000 "
                "--features 17040,42816 --data DIR`",
                "cnn": "hours of a processor; "
                "`phimap bench cntk-cifar10 --methods gradient,cnn --rows 50000 --features 4096 --data DIR`",
                "exact": "months of a processor; an hour for 500 images: "
                "`phimap bench cntk-cifar10 --methods exact --rows 500 --data DIR`",
            }[method]
            yield f"Table 1, {cntk._NAMES[method]}, 50,000 images, accuracy (%)", "; ".join(cells), why
        yield from _regressions(paper, ("MillionSongs", "WorkLoads", "CT"))
        yield (
            "Table 2, Protein, RBF kernel and NTK on all rows",
            "in the table above",
            "memory: the kernel matrix of the training rows of a fold takes 9 GB",
        )
    elif paper == HAN:
        yield (
            "Figure 2, other m from 160 to 655,360",
            "a plot",
            "memory for large m; `phimap bench ntk-error --rows 10000 --features 40960,163840 --data DIR`",
        )
        yield from _regressions(paper, ("MillionSongs", "WorkLoads", "SuperConduct"))
        yield (
            "Table 2, Protein, m = 10,000, and the RBF kernel and the NTK on all rows",
            "in the table above",
            (
                "an hour of a processor, and memory: the kernel matrix of the training rows of a fold takes 9 GB; "
                "`phimap bench ntk-uci-regression --sets protein --rows 50000 --features 10000 --data DIR`"
            ),
        )
        yield (
            "Table 1, sets of 300 to 5,000 rows",
            "in the table above",
            "hours of a processor; `phimap bench ntk-uci-classification --rows 5000 --data DIR`",
        )
        yield (
            "Table 1, networks of width 512 to 2,048",
            "in the table above",
            "hours of a processor; `phimap bench ntk-uci-classification --methods network --rows 300 --data DIR`",
        )
        yield (
            "Table 1, P90, P95 and PMA of the network (%)",
            ", ".join(f"{value:.2f}" for value in classification.PUBLISHED["network"][2:]),
            (
                "hours of a processor: these compare with the best of all methods, which must be fitted in one run; "
                f"`phimap bench ntk-uci-classification --methods {','.join((*classification.CHOSEN, 'network'))} "
                "--rows 300 --data DIR`"
            ),
        )
        yield "Figure 3, trained networks", "a plot", "networks are not trained: ridge regression has the same features"
        why = "embeddings by a pretrained network are not at hand; `phimap bench ntk-low-shot --repeats 50 --data DIR`"
        for method, accuracies in low_shot.PUBLISHED.items():
            pairs = zip(low_shot.PUBLISHED_SETS, accuracies, strict=True)
            cells = "; ".join(f"{name} {accuracy:.2f}" for name, accuracy in pairs)
            yield f"Table 3, {_LOW_SHOT[method]}, accuracy (%)", cells, why
        yield (
            "Figure 4, m = 500 to 8,000",
            "a plot",
            (
                "embeddings by a pretrained network are not at hand; "
                "`phimap bench ntk-low-shot --repeats 50 --features 500,1000,2000,4000,8000 --data DIR`"
            ),
        )
    elif paper == LIU:
        yield "Table 7 and Section 6.2, cod-RNA", "ssf; -", "the set is in no file at hand, and no command reads it"
        yield (
            "Table 7, covtype",
            "orthogonal; -",
            _no_file("approximation --sets Cov-Type --repeats 10 --data DIR"),
        )
        yield (
            "Section 6.2, covtype",
            "most methods alike",
            _no_file("classification --sets Cov-Type --rows 300000 --data DIR"),
        )
        yield (
            "Table 7, LS-RFF",
            "among the methods; best on no set",
            (
                "it depends on the data, and takes part only if it is named; `phimap bench approximation "
                "--sets ijcnn1,EEG,magic04,letter,skin,a8a --projections gaussian,orthogonal,ssf,leverage --data DIR`"
            ),
        )
        yield (
            "Figure 4(a), MNIST, error of GQ and LS-RFF",
            "a plot",
            (
                "not among the methods of our run; `phimap bench approximation --sets MNIST "
                "--features 2000,10000,20000 --projections gaussian,gauss-quadrature,leverage --data DIR`"
            ),
        )
        yield (
            "Section 6.2, accuracy with SORF, ROM, Fastfood, QMC and GQ",
            "most methods alike",
            (
                "an hour of a processor; `phimap bench classification --sets ijcnn1,EEG,magic04,letter,skin,a8a "
                "--projections sorf,rom,fastfood,qmc,gauss-quadrature --features 128 --rows 200000 --data DIR`"
            ),
        )
        yield (
            "Section 6.2, accuracy with other numbers of directions",
            "most methods alike",
            (
                "hours of a processor; `phimap bench classification --sets letter "
                "--projections gaussian,orthogonal,ssf,leverage --features 64,256 --rows 200000 --data DIR`"
            ),
        )
        yield (
            "Figure 4(a), MNIST, accuracy and time",
            "most methods alike (a plot)",
            (
                "hours of a processor; "
                "`phimap bench classification --sets MNIST --features 2000,20000 --rows 60000 --data DIR`"
            ),
        )
        yield "Figure 4(b), CIFAR-10", "a plot", "embeddings by a pretrained network are not at hand"
        yield "Appendix, MNIST-8M", "in an appendix", "the appendix is not at hand, and no command reads the set"
        yield (
            "Appendix, accuracy with arc-cosine and polynomial kernels on all rows",
            "in an appendix",
            (
                "the appendix is not at hand, so our run has 2,000 rows of one set; `phimap bench classification "
                "--kernels arccosine0,arccosine1,polynomial --rows 200000 --data DIR`"
            ),
        )
    else:
        yield "Figures 1 and 12, Cov-Type", "plots", _no_file("footprint --sets Cov-Type --rows 500000 --data DIR")
        yield (
            "Figure 4, Census, squared error",
            "a plot",
            _no_file("footprint --sets Census --rows 16000 --data DIR") + " (measures classes)",
        )
        yield "Figure 14, Fashion-MNIST", "a plot", _no_file("footprint --sets Fashion-MNIST --rows 1024 --data DIR")
        yield "Figures 13 and 15, embeddings", "plots", "embeddings by trained networks are not at hand"
        yield (
            "Figures 10 and 11, other numbers of features, machines by libsvm",
            "plots",
            (
                'the captions say "using libsvm" and no more; our machines are linear, fitted by stochastic gradients; '
                "`phimap bench footprint --sets a8a,ijcnn1 --methods trf,rff,orf,ssf "
                "--rows 100000 --data DIR`"
            ),
        )
        yield (
            "Figures 3, 8 and 9, right, running times of ridge regression",
            "plots",
            "times of other machines are not compared; the table of `phimap bench footprint-path --data DIR` has ours",
        )
        yield (
            "Figures 10 to 12, running times",
            "lower with ternary features (in the text)",
            (
                "times of other machines are not compared; the tables of `phimap bench footprint --sets a8a,ijcnn1 "
                "--methods trf,rff,orf,ssf --rows 100000 --data DIR` have ours"
            ),
        )
