"""The experiments of the papers, with our results and the published results.

Each experiment is a module with a function `report`. `EXPERIMENTS` lists the experiments, and ``phimap bench`` runs
them. Start reading with `experiment.py`, which defines `Report`. Only the package `cli` imports this package.
"""

#: Experiments of ``phimap bench`` by name: the module with `report`, and a description of the reproduced result.
EXPERIMENTS = {
    "active-learning": (
        "active_learning",
        "Han et al. (2021), Figure 3: labels of greedy designs against random ones, by ridge and with 2,048 features",
    ),
    "approximation": (
        "approximation",
        "Liu et al. (2021), Table 7 and Figure 4(a): error of every projection, without MNIST-8M, cod-RNA and covtype",
    ),
    "classification": (
        "approximation",
        "Liu et al. (2021), Section 6.2: test accuracy of tuned classifiers on every projection's features",
    ),
    "data-dependent": (
        "data_dependent",
        "Liu et al. (2021), Sections 2.4 and 4: features that look at the data, by their number and by time",
    ),
    "double-descent": (
        "double_descent",
        "Liu et al. (2021), Figure 5: errors as the number of features passes that of rows, and on two further tasks",
    ),
    "ntk-function": (
        "ntk.function",
        "Zandieh et al. (2021), Figure 1: the function of the tangent kernel, and its polynomial of degree 8",
    ),
    "ntk-activations": (
        "ntk.activations",
        "Zandieh et al. (2021), Equations 18 to 20: maps and networks of other activations, on unit or Gaussian rows",
    ),
    "ntk-error": (
        "ntk.error",
        "Han et al. (2021), Figure 2: error of neural tangent maps by width, on 1,000 rows of its 10,000",
    ),
    "ntk-mnist": (
        "ntk.mnist",
        "Zandieh et al. (2021), Figure 2a: accuracy on MNIST by width and time, on 10,000 rows of its 60,000",
    ),
    "ntk-spectral": ("ntk.spectral", "Han et al. (2021), Figure 1: condition numbers of the regularised estimates"),
    "ntk-uci-classification": (
        "ntk.classification",
        "Han et al. (2021), Table 1: accuracy on the UCI collection, sets of at most 300 rows of its 5,000",
    ),
    "ntk-low-shot": (
        "ntk.low_shot",
        "Han et al. (2021), Appendix D: five labels a class on embeddings of yours, or on digits",
    ),
    "ntk-uci-regression": (
        "ntk.regression",
        "Zandieh et al. (2021) and Han et al. (2021), Tables 2: errors of ridge regression, on 10,000 rows of a set",
    ),
    "cntk-cifar10": (
        "cntk",
        "Zandieh et al. (2021), Table 1 and Figure 2b: accuracy on CIFAR-10 by width, on 2,000 images of its 50,000",
    ),
    "cntk-mnist": ("cntk", "the same on MNIST"),
    "footprint": (
        "footprint.accuracy",
        "Ali et al. (2022), Figures 1, 4, 10 to 12: accuracy against bytes and number of features, at most 20,000 rows",
    ),
    "footprint-path": (
        "footprint.regularisation",
        "Ali et al. (2022), Figures 3 and 5 to 9: error of ridge regression along its regularisation",
    ),
    "spectra": ("spectra", "Ali et al. (2022), Figure 2: spectra of kernel matrices and of their equivalents"),
    "theory": (
        "theory",
        "Liu et al. (2021), Section 3.1, and theorems of three papers: variances and bounds beside draws",
    ),
    "polynomial": (
        "polynomial",
        "Wacker et al. (2022) and Pham, Pagh (2013): error and time of sketches of the polynomial kernel",
    ),
    "tabular": ("tabular.results", "43 tables: our defaults beside boosting, nearest neighbours, exact kernel methods"),
}
