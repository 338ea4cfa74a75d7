"""The commands; their options are fields of dataclasses, and the work is imported when a command runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from phimap._options import Option
from phimap.bench.options import BenchOptions
from phimap.cli.errors import OneLineGroup, one_line_errors
from phimap.cli.options import CompareOptions, FitOptions, InfoOptions, PlanOptions, PredictOptions

Options = TypeVar("Options")

app = typer.Typer(
    cls=OneLineGroup,
    epilog="Data: .csv, .tsv, .txt, .json, .parquet, .feather, .npy, .npz (file.npz:key), .libsvm, folders and "
    "patterns of these, a folder of images, or - for standard input. Columns may hold numbers, text, categories and "
    "dates.",
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(kind: type[Options]) -> Callable[[Callable[[Options], None]], Callable[[Options], None]]:
    """Make a function of the options `kind`, a frozen dataclass, a command that has its fields as options."""
    hints = get_type_hints(kind, include_extras=True)
    told: dict[str, tuple[Any, Option]] = {field.name: get_args(hints[field.name]) for field in fields(kind)}  # pyright: ignore[reportArgumentType]

    def decorate(run: Callable[[Options], None]) -> Callable[[Options], None]:
        def take(**typed: Any) -> None:
            with one_line_errors():
                run(kind(**{name: _read(name, told[name][1], value) for name, value in typed.items()}))

        parameters = [_parameter(field, *told[field.name]) for field in fields(kind)]  # pyright: ignore[reportArgumentType]
        take.__signature__ = Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        app.command(name=run.__name__, help=run.__doc__)(take)
        return run

    return decorate


def _parameter(field: Field, kind: Any, option: Option) -> Parameter:
    """A field as typer wants it."""
    if option.read is not None:
        kind = str | None if field.default is None else str
    completes = (lambda: list(option.words)) if option.words else None
    shown = (
        typer.Argument(help=option.help, autocompletion=completes)
        if option.positional
        else typer.Option(*option.names, help=option.help, autocompletion=completes)
    )
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


def _read(name: str, option: Option, value: Any) -> Any:
    """What was typed, as the field takes it."""
    if option.read is None or value is None:
        return value
    return option.read(option.names[0] if option.names else f"--{name.replace('_', '-')}", value)


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


@command(FitOptions)
def fit(options: FitOptions) -> None:
    """Fit a kernel model on a table, or on images, and score it on held-out rows."""
    from phimap.cli.fit import run

    run(options)


@command(PredictOptions)
def predict(options: PredictOptions) -> None:
    """Predict the rows of a table, or the images of a folder, with a saved model."""
    from phimap.cli.predict import run

    run(options)


@command(InfoOptions)
def info(options: InfoOptions) -> None:
    """Describe this installation and its speed, or a model file."""
    from phimap.cli.info import run

    run(options)


@command(CompareOptions)
def compare(options: CompareOptions) -> None:
    """Fit several methods to a table, gradient boosting and a linear model among them, and say which are better."""
    from phimap.cli.compare import run

    run(options)


@command(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Predict what a fit takes of time, memory and traffic, on this machine or on many, before it is begun."""
    from phimap.cli.plan import run

    run(options)


@command(BenchOptions)
def bench(options: BenchOptions) -> None:
    """Run an experiment of the papers on this machine."""
    from phimap.cli.bench import run

    run(options)
