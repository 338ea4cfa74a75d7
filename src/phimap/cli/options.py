"""The options of ``phimap fit``, ``predict``, ``info``, ``compare`` and ``plan``, each written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from phimap._options import Option, Quiet, words
from phimap.cli.option_values import (
    background_path,
    data_path,
    height_and_width,
    kinds,
    levels,
    model_path,
    number_or,
    positive_integer,
)
from phimap.config import parse_seconds

_auto_or_count = number_or("auto", int, "an integer or auto", " Use for example 4096.")
Data = Annotated[
    str,
    Option(
        "Table to read: .csv, .tsv, .txt, .json, .xlsx, .parquet, .feather, .npy, file.npz:key, .libsvm, a folder of "
        "parts or a quoted pattern such as 'runs/*.parquet', a folder of images, or - for standard input.",
        positional=True,
        read=data_path,
    ),
]
Task = Annotated[
    Literal["auto", "regression", "classification"],
    Option("auto: classes are text, booleans, and whole numbers with at most 20 distinct values."),
]
Columns = Annotated[list[str] | None, Option("Feature columns, separated by commas. Default: all.", read=words)]
Drop = Annotated[
    list[str] | None, Option("Columns to leave out, by name or position, separated by commas.", read=words)
]
Types = Annotated[
    dict[str, str] | None,
    Option("What columns are, such as zip=category,born=date; also number, text and drop.", read=kinds),
]
Groups = Annotated[
    str | None,
    Option("Column of groups, such as persons: their rows are held out together by every choice. No feature."),
]
Time = Annotated[
    str | None,
    Option("Column of moments, as numbers or as dates in one form: the last are held out. No feature."),
]
Weights = Annotated[
    str | None,
    Option("Column of weights of the training rows: 2 counts like two equal rows, 0 leaves a row out. No feature."),
]
Strict = Annotated[bool, Option("Refuse a table with rows that cannot be used, in place of leaving them out.")]
Memory = Annotated[
    str | None,
    Option("Byte budget, such as 2GB. Default: 4GB for what a fit chooses, half of the free memory for all else."),
]
Jobs = Annotated[int | None, Option("Threads; the result does not depend on them. Default: all cores.")]
Json = Annotated[bool, Option("Print the results as one JSON object.")]


Holdout = Annotated[float, Option("Share of the rows held out for the score; 0 for none.")]
Precision = Annotated[Literal["float32", "float64"], Option("Precision of the features.")]
Report = Annotated[Path | None, Option("File for an HTML report.")]
# Names of kernels that shell completion offers.
_KERNELS = ("auto", "gaussian", "laplacian", "matern", "arccosine", "polynomial", "nngp", "ntk", "cntk")


@dataclass(frozen=True)
class FitOptions:
    """The options of ``phimap fit``."""

    data: Data
    target: Annotated[
        str | None, Option("Column to predict, by name or position; for .npz also a key. Folders: class, by subfolder.")
    ] = None
    kernel: Annotated[
        str,
        Option(
            "auto (by held-out error), gaussian, laplacian, matern, arccosine, polynomial, nngp, ntk, cntk, "
            "spectral-mixture, or a kernel as the result prints it, such as 'Matern(length_scale=2.0, nu=1.5)'.",
            words=(*_KERNELS, "spectral-mixture"),
        ),
    ] = "auto"
    metric: Annotated[
        Literal["auto", "none", "diagonal", "full"],
        Option("Metric to learn: weights of the columns (diagonal), a matrix (full), none, or by held-out error."),
    ] = "auto"
    loss: Annotated[
        Literal["auto", "squared", "huber", "quantile", "poisson", "gamma", "tweedie", "logistic", "squared_hinge"],
        Option("What is minimised; the last two for classes. auto is squared for numbers, and chosen for classes."),
    ] = "auto"
    quantile: Annotated[
        float | tuple[float, ...] | None,
        Option("Quantiles to predict, ascending and separated by commas, with --loss quantile (0.5).", read=levels),
    ] = None
    power: Annotated[
        float | None, Option("Power of the mean that the variance follows, 1 to 2, with --loss tweedie (1.5).")
    ] = None
    effort: Annotated[
        Literal["fast", "normal", "thorough"], Option("How much of kernel, width and metric is tried.")
    ] = "normal"
    scoring: Annotated[
        str | None,
        Option("Scorer of scikit-learn, such as roc_auc, by which the loss and the share of the trees are chosen."),
    ] = None
    time_limit: Annotated[
        float | None,
        Option(
            "Time after which the search ends with the best so far, such as 90s or 5min (none).", read=parse_seconds
        ),
    ] = None
    corrections: Annotated[
        Literal["auto", "none"], Option("Exact models of the residuals, region by region; or none.")
    ] = "auto"
    trees: Annotated[
        Literal["auto", "none"], Option("Boosted trees, averaged with the kernel model where they help; or none.")
    ] = "auto"
    features: Annotated[
        int | str, Option("Number of features, or auto: as many as lower the held-out error.", read=_auto_or_count)
    ] = "auto"
    depth: Annotated[int | None, Option("Hidden layers, for ntk and nngp (1); layers, for cntk (2).")] = None
    filter_size: Annotated[int | None, Option("Side of the filters, odd, for cntk (3).")] = None
    pooling: Annotated[
        Literal["gap", "flatten"] | None, Option("Mean over pixels (gap) or none (flatten), for cntk (gap).")
    ] = None
    length_scale: Annotated[
        float | str,
        Option(
            "Kernel width in standardised units, auto (by held-out error) or median (distance).",
            read=number_or("auto median", float, "a positive number, auto or median"),
        ),
    ] = "auto"
    alpha: Annotated[
        float | str,
        Option(
            "Ridge regularisation, or auto (by held-out rows).",
            read=number_or("auto", float, "a positive number or auto"),
        ),
    ] = "auto"
    task: Task = "auto"
    holdout: Holdout = 0.1
    seed: Annotated[int, Option("Seed of the split and of all random draws.")] = 0
    standardize: Annotated[
        Literal["auto", "columns", "global", "none"],
        Option("Scaling of the inputs; auto is global for images, else columns, heavy tails squashed where it pays."),
    ] = "auto"
    columns: Columns = None
    drop: Drop = None
    types: Types = None
    groups: Groups = None
    time: Time = None
    weights: Weights = None
    strict: Strict = False
    size: Annotated[
        tuple[int, int] | None,
        Option("Height x width, such as 32x32, to which the images of a folder are resized.", read=height_and_width),
    ] = None
    channels: Annotated[
        int | None, Option("1 (grey) or 3 (RGB) for the images of a folder. Default: as the first image.")
    ] = None
    model: Annotated[Path | None, Option("File for the fitted model.")] = None
    report: Report = None
    checkpoint: Annotated[
        Path | None,
        Option("Folder for checkpoints: after a stop or a crash the same command resumes from there."),
    ] = None
    every: Annotated[
        float | None, Option("Time between two checkpoints, such as 30s, 5min or 1h (5min).", read=parse_seconds)
    ] = None
    memory: Memory = None
    n_jobs: Jobs = None
    scheduler: Annotated[
        str | None,
        Option("Fit on the workers of a Dask scheduler, such as tcp://host:8786, which see the file; or local ones."),
    ] = None
    device: Annotated[str, Option("auto, cpu or cuda.")] = "auto"
    dtype: Precision = "float32"
    statistics: Annotated[bool, Option("Keep the sums in the model file, so that training can go on.")] = False
    json: Json = False
    force: Annotated[bool, Option("Let --model and --report replace a file that is no model or report.")] = False
    verbose: Annotated[bool, Option("Say which solver was chosen, and why.")] = False
    quiet: Quiet = False

    @property
    def by_class(self) -> bool:
        """Whether rows are held out in proportion to the frequencies of the target's values, as for classes."""
        return self.task != "regression"


@dataclass(frozen=True)
class PredictOptions:
    """The options of ``phimap predict``."""

    model: Annotated[Path, Option("Model file, as written by phimap fit --model.", positional=True, read=model_path)]
    data: Data
    output: Annotated[
        Path | None, Option("CSV or .parquet file. Default: CSV on standard output.", ("--output", "-o"))
    ] = None
    force: Annotated[bool, Option("Let --output replace a file that holds no predictions.")] = False
    target: Annotated[str | None, Option("Column with the truth, or class for a folder: prints the score, too.")] = None
    probabilities: Annotated[bool, Option("Add a column probability_CLASS for each class.")] = False
    std: Annotated[
        bool, Option("Add a column std: the standard deviation of a new target. Needs fit --statistics.")
    ] = False
    interval: Annotated[
        float | None, Option("Add columns lower and upper that hold this share of new targets, such as 0.9.")
    ] = None
    json: Json = False
    id: Annotated[str | None, Option("Column that is copied beside the predictions.")] = None
    escape_formulas: Annotated[
        bool, Option("Put ' before texts that begin with =, +, - or @, which spreadsheets take for formulas.")
    ] = False
    strict: Strict = False
    memory: Memory = None
    n_jobs: Annotated[
        int | None,
        Option("Threads that work at the rows; changes no bit. Default: all cores.", ("--n-jobs", "--workers")),
    ] = None
    quiet: Annotated[bool, Option("No notes. Warnings stay.", ("--quiet", "-q"))] = False


@dataclass(frozen=True)
class ExplainOptions:
    """The options of ``phimap explain``."""

    model: Annotated[Path, Option("Model file, as written by phimap fit --model.", positional=True, read=model_path)]
    data: Data
    output: Annotated[
        Path | None,
        Option(
            "CSV or .parquet file for the values, a column for each feature. Default: CSV on standard output, if there "
            "is no --report.",
            ("--output", "-o"),
        ),
    ] = None
    report: Report = None
    target: Annotated[str | None, Option("Column with the truth, which is left out of a table without names.")] = None
    background: Annotated[
        str | None,
        Option(
            "Table with whose rows the explained rows are compared, such as the training table. Default: the table "
            "itself.",
            read=background_path,
        ),
    ] = None
    background_rows: Annotated[int, Option("Rows of the background, drawn at random.")] = 100
    rows: Annotated[int | None, Option("Rows, drawn at random, that are explained. Default: all.")] = None
    row: Annotated[int | None, Option("Number of a row in the file that the report explains alone.")] = None
    seed: Annotated[int, Option("Seed of the background, of --rows and of sampled values.")] = 0
    json: Json = False
    force: Annotated[bool, Option("Let --output and --report replace files of any kind.")] = False
    strict: Strict = False
    memory: Memory = None
    n_jobs: Jobs = None
    quiet: Quiet = False

    @property
    def on_screen(self) -> bool:
        """Whether the values go to standard output, because the user gave no file."""
        return self.output is None and self.report is None


@dataclass(frozen=True)
class ExportOptions:
    """The options of ``phimap export``."""

    model: Annotated[Path, Option("Model file, as written by phimap fit --model.", positional=True, read=model_path)]
    target: Annotated[Path, Option("ONNX file; with --numpy a folder.", positional=True)]
    numpy: Annotated[bool, Option("Write model.safetensors and predict.py, which needs NumPy alone.")] = False
    json: Json = False
    force: Annotated[bool, Option("Replace files that phimap export did not write.")] = False


@dataclass(frozen=True)
class InfoOptions:
    """The options of ``phimap info``."""

    model: Annotated[
        Path | None, Option("Model file. Default: describe this installation.", positional=True, read=model_path)
    ] = None
    compile: Annotated[
        bool, Option("Compile all inner loops now, a minute's work, and keep them for later processes.")
    ] = False
    json: Json = False


@dataclass(frozen=True)
class CompareOptions:
    """The options of ``phimap compare``."""

    data: Data
    target: Annotated[str | None, Option("Column to predict, by name or position; for .npz also a key.")] = None
    models: Annotated[
        list[str] | None,
        Option(
            "Among linear, neighbours, hgb, lightgbm, catboost, phimap, gaussian, ntk and nystroem, "
            "separated by commas. "
            "Default: all.",
            read=words,
            words=("linear", "neighbours", "hgb", "lightgbm", "catboost", "phimap", "gaussian", "ntk", "nystroem"),
        ),
    ] = None
    splits: Annotated[int, Option("Parts of the rows that are tested in turn, a fifth each.")] = 3
    rows: Annotated[
        int | str,
        Option(
            "Rows, drawn at random, that are used of longer tables; or all.",
            read=number_or("all", positive_integer, "a positive integer or all", " Use for example 10000."),
        ),
    ] = "10000"
    features: Annotated[
        int | str, Option("Number of features of ours, or auto: 2,048 with fixed kernels.", read=_auto_or_count)
    ] = "auto"
    task: Task = "auto"
    seed: Annotated[int, Option("Seed of the rows, the splits and the methods.")] = 0
    columns: Columns = None
    drop: Drop = None
    types: Types = None
    groups: Groups = None
    time: Time = None
    strict: Strict = False
    report: Report = None
    force: Annotated[bool, Option("Let --report replace a file of any kind.")] = False
    json: Json = False
    memory: Memory = None
    n_jobs: Jobs = None
    quiet: Quiet = False


@dataclass(frozen=True)
class PlanOptions:
    """The options of ``phimap plan``."""

    data: Annotated[
        str | None,
        Option(
            "Table: .csv, .parquet, .feather, .npy, file.npz:key and others. Default: --rows and --columns.",
            positional=True,
            read=data_path,
        ),
    ] = None
    features: Annotated[
        int | str, Option("Number of features, or auto: the most that a fit takes by itself.", read=_auto_or_count)
    ] = "auto"
    target: Annotated[str | None, Option("Column to predict, by name or position.")] = None
    task: Task = "auto"
    rows: Annotated[int | None, Option("Rows, in place of those of the table.")] = None
    columns: Annotated[int | None, Option("Feature columns as numbers, in place of those of the table.")] = None
    targets: Annotated[int | None, Option("Targets or classes, in place of those of the table.")] = None
    format: Annotated[Literal["memory", "csv", "parquet", "npy"], Option("Where --rows come from without a table.")] = (
        "parquet"
    )
    kernel: Annotated[
        str,
        Option(
            "As in phimap fit; auto searches.",
            words=_KERNELS,
        ),
    ] = "auto"
    solver: Annotated[Literal["auto", "cholesky", "cg"], Option("auto: as phimap fit takes it.")] = "auto"
    workers: Annotated[int, Option("Processes on one machine or many.")] = 1
    holdout: Holdout = 0.1
    dtype: Precision = "float32"
    machine: Annotated[
        Literal["measured", "reference"],
        Option("Constants of this machine, measured in some seconds, or of the documentation's."),
    ] = "measured"
    memory: Memory = None
    n_jobs: Annotated[int | None, Option("Threads of a process. Default: all cores; 1 of several workers.")] = None
    json: Json = False
    quiet: Quiet = False
