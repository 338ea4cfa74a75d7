"""The commands and their options; the work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from phimap.cli.errors import OneLineGroup, one_line_errors

app = typer.Typer(
    cls=OneLineGroup,
    epilog="Data: .csv, .csv.gz, .parquet, .npy, .npz (file.npz:key), or a folder of images. All are read out of core.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Data = Annotated[
    str, typer.Argument(help="Table to read: .csv, .csv.gz, .parquet, .npy, file.npz:key or a folder of images.")
]
Memory = Annotated[str | None, typer.Option(help="Byte budget, such as 2GB. Default: half of the free memory.")]
Jobs = Annotated[int | None, typer.Option(help="Threads; changes no bit of the result. Default: all cores.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary, only the result lines.")]


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    """Kernel methods at linear cost: fit, predict, inspect, compare."""
    if version:
        import phimap

        typer.echo(f"phimap {phimap.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def fit(
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(help="Column to predict, by name or position; for .npz also a key. Folders: class, by subfolder."),
    ] = None,
    kernel: Annotated[
        str, typer.Option(help="gaussian, laplacian, matern, arccosine, polynomial, nngp, ntk or cntk.")
    ] = "gaussian",
    features: Annotated[int, typer.Option(help="Number of random features.")] = 4096,
    depth: Annotated[
        int | None, typer.Option(help="Hidden layers, for ntk and nngp (1); layers, for cntk (2).")
    ] = None,
    filter_size: Annotated[int | None, typer.Option(help="Side of the filters, odd, for cntk (3).")] = None,
    pooling: Annotated[
        Literal["gap", "flatten"] | None, typer.Option(help="Mean over pixels (gap) or none (flatten), for cntk (gap).")
    ] = None,
    length_scale: Annotated[str, typer.Option(help="Kernel width in standardised units, or auto (median).")] = "auto",
    alpha: Annotated[str, typer.Option(help="Ridge regularisation, or auto (by held-out rows).")] = "auto",
    task: Annotated[
        Literal["auto", "regression", "classification"],
        typer.Option(help="auto: classes are text, booleans, and whole numbers with at most 20 distinct values."),
    ] = "auto",
    holdout: Annotated[float, typer.Option(help="Share of the rows held out for the score; 0 for none.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the split and of all random draws.")] = 0,
    standardize: Annotated[
        Literal["auto", "columns", "global", "none"],
        typer.Option(help="Scaling of the inputs; auto is global for images, else columns."),
    ] = "auto",
    columns: Annotated[str | None, typer.Option(help="Feature columns, separated by commas. Default: all.")] = None,
    drop: Annotated[
        str | None, typer.Option(help="Columns to leave out, by name or position, separated by commas.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Height x width, such as 32x32, to which the images of a folder are resized.")
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="1 (grey) or 3 (RGB) for the images of a folder. Default: as the first image.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="File for the fitted model.")] = None,
    report: Annotated[Path | None, typer.Option(help="File for an HTML report.")] = None,
    memory: Memory = None,
    n_jobs: Jobs = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[Literal["float32", "float64"], typer.Option(help="Precision of the features.")] = "float32",
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Keep the sums in the model file, so that training can go on.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a kernel model on a table, or on images, and score it on held-out rows."""
    with one_line_errors():
        from phimap.cli.fit import Request, run

        run(
            Request(
                data=data,
                target=target,
                kernel=kernel,
                features=features,
                depth=depth,
                filter_size=filter_size,
                pooling=pooling,
                length_scale=_auto_or_number("--length-scale", length_scale),
                alpha=_auto_or_number("--alpha", alpha),
                task=task,
                holdout=holdout,
                seed=seed,
                standardize=standardize,
                columns=_names(columns),
                drop=_names(drop) or [],
                size=_height_and_width(size),
                channels=channels,
                model=model,
                report=report,
                memory=memory,
                n_jobs=n_jobs,
                device=device,
                dtype=dtype,
                statistics=statistics,
                quiet=quiet,
            )
        )


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Model file, as written by phimap fit --model.")],
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file. Default: standard output.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Column with the truth, or class for a folder: prints the score, too.")
    ] = None,
    memory: Memory = None,
    n_jobs: Jobs = None,
) -> None:
    """Predict the rows of a table, or the images of a folder, with a saved model."""
    with one_line_errors():
        from phimap.cli.predict import run

        run(model, data, output, target, memory, n_jobs)


@app.command()
def info(
    model: Annotated[Path | None, typer.Argument(help="Model file. Default: describe this installation.")] = None,
) -> None:
    """Describe this installation and its speed, or a model file."""
    with one_line_errors():
        from phimap.cli.info import describe_installation, describe_model

        if model is None:
            describe_installation()
        else:
            describe_model(model)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="An experiment; an unknown name lists them.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets. Default: PHIMAP_DATA.")] = None,
    sets: Annotated[str | None, typer.Option(help="Data sets, separated by commas; digits needs no folder.")] = None,
    projections: Annotated[str | None, typer.Option(help="Projections, separated by commas. Default: all.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, separated by commas. Default: all.")] = None,
    depths: Annotated[str | None, typer.Option(help="Depths of networks, separated by commas.")] = None,
    features: Annotated[str | None, typer.Option(help="Numbers of features, separated by commas.")] = None,
    rows: Annotated[int | None, typer.Option(help="Most rows of a data set.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Draws of each map.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first draw and of the splits.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder for results (JSON) and figures (PNG).")] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the papers on this machine."""
    with one_line_errors():
        from phimap.bench.experiment import Request
        from phimap.cli.bench import bench as run

        run(
            Request(
                name,
                data,
                sets=_names(sets),
                projections=_names(projections),
                methods=_names(methods),
                depths=_numbers("--depths", depths),
                widths=_numbers("--features", features),
                rows=rows,
                repeats=repeats,
                seed=seed,
                output=output,
                quiet=quiet,
            )
        )


def _numbers(option: str, text: str | None) -> list[int] | None:
    """Positive integers in a list separated by commas."""
    names = _names(text)
    if names is None:
        return None
    if not all(name.isdigit() and int(name) > 0 for name in names):
        raise ValueError(f"{option} must be positive integers separated by commas, got {text!r}.")
    return [int(name) for name in names]


def _names(text: str | None) -> list[str] | None:
    """Names in a list separated by commas."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _height_and_width(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) != 2 or not all(side.isdigit() and int(side) > 0 for side in sides):
        raise ValueError(f"--size must be height x width, such as 32x32, got {text!r}.")
    return int(sides[0]), int(sides[1])


def _auto_or_number(option: str, text: str) -> Any:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a positive number or auto, got {text!r}.") from None
