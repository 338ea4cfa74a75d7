"""The commands. Their options are fields of dataclasses, and the module of a command is imported when it runs."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from importlib import import_module
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args, get_type_hints

import typer

from phimap._options import Option, flag
from phimap.bench.options import BenchOptions
from phimap.cli.errors import OneLineGroup, one_line_errors
from phimap.cli.option_values import check_target
from phimap.cli.options import (
    CompareOptions,
    ExplainOptions,
    ExportOptions,
    FitOptions,
    InfoOptions,
    PlanOptions,
    PredictOptions,
)

# Each command is a module of this package with a function `run`, which takes the options.
COMMANDS: dict[str, tuple[type, str]] = {
    "fit": (FitOptions, "Fit a kernel model on a table, or on images, and score it on held-out rows."),
    "predict": (PredictOptions, "Predict the rows of a table, or the images of a folder, with a saved model."),
    "explain": (
        ExplainOptions,
        "Explain the predictions of a saved model on the rows of a table: what each column adds to each of them.",
    ),
    "export": (ExportOptions, "Write a saved model as ONNX, or as a folder that NumPy alone can run."),
    "info": (InfoOptions, "Describe this installation and its speed, or a model file."),
    "compare": (
        CompareOptions,
        "Fit several methods to a table, gradient boosting and a linear model among them, and say which are better.",
    ),
    "plan": (
        PlanOptions,
        "Predict what a fit takes of time, memory and traffic, on this machine or on many, before it is begun.",
    ),
    "bench": (BenchOptions, "Run an experiment of the papers on this machine."),
}

app = typer.Typer(
    cls=OneLineGroup,
    epilog="Data: .csv, .tsv, .txt, .json, .xlsx, .parquet, .feather, .npy, .npz (file.npz:key), .libsvm, folders and "
    "patterns of these, a folder of images, or - for standard input. Columns may hold numbers, text, categories and "
    "dates.",
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def _add(command: str, kind: type, text: str) -> None:
    """Add a command whose options are the fields of a frozen dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    declared: dict[str, tuple[Any, Option]] = {one.name: get_args(hints[one.name]) for one in fields(kind)}  # pyright: ignore[reportAssignmentType]

    def run(**typed: Any) -> None:
        with one_line_errors():
            options = kind(**{name: _read(name, declared[name][1], value) for name, value in typed.items()})
            if isinstance(options, FitOptions | CompareOptions) and options.target is not None:
                check_target(options.data, options.target)
            import_module(f"phimap.cli.{command}").run(options)

    parameters = [_parameter(one, *declared[one.name]) for one in fields(kind)]
    run.__signature__ = Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    app.command(name=command, help=text)(run)


def _parameter(field: Field, kind: Any, option: Option) -> Parameter:
    """Convert a field to a parameter for typer."""
    if option.read is not None:
        kind = str | None if field.default is None else str
    # Without explicit names, typer would add an option --no-..., which only restates the default.
    names = option.names or ((flag(field.name),) if kind is bool else ())
    completes = (lambda: list(option.words)) if option.words else None
    shown = (
        typer.Argument(help=option.help, autocompletion=completes)
        if option.positional
        else typer.Option(*names, help=option.help, autocompletion=completes)
    )
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


def _read(name: str, option: Option, value: Any) -> Any:
    """Convert typed text to the value of a field."""
    if option.read is None or value is None:
        return value
    return option.read(option.names[0] if option.names else flag(name), value)


for _name, (_kind, _text) in COMMANDS.items():
    _add(_name, _kind, _text)
