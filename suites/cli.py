"""The command `presil`: one verb a file in `commands/`, and the one place where errors become exit codes.

0: done. 1: a kernel is wrong. 2: what was asked for is wrong, or cannot be done. 3: nothing ran. 130: Ctrl-C.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from presil.simulators.errors import PresilError, Undefined

from .commands.area import area
from .commands.calibrate import calibrate
from .commands.check import check
from .commands.machines import machines
from .commands.operators import operators
from .commands.output import say
from .commands.replicate import replicate
from .commands.report import report
from .commands.run import run
from .commands.search import search
from .commands.simulate import simulate
from .commands.validate import validate

# Before anything loads numpy: another number of threads gives other bits in float sums, and workers share the cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

WRONG, BAD_INPUT, NOTHING_RAN, INTERRUPTED = 1, 2, 3, 130


class Verbs(TyperGroup):
    """All verbs. No mistake of a user, nor Ctrl-C, nor a reader that has gone shows a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb and ends with the exit code of what came of it."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except PresilError as error:
            say(f"presil: error: {error}")
            ctx.exit(exit_code(error))
        except KeyboardInterrupt as stop:
            say(f"presil: interrupted{f': {stop}' if str(stop) else ''}")
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            # The reader is gone (`presil ... | head`). Python would complain once more when it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except OSError as error:  # stdout on a full disk, and whatever no verb foresaw
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            say(f"presil: error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
            ctx.exit(BAD_INPUT)
        else:
            return result


def exit_code(error: PresilError) -> int:
    """The exit code of an error. One of ours (ModelError) ends with 2 as well: there is no result."""
    from presil.kernels.ignition.result import NothingValid

    from .runs import NothingRan

    if isinstance(error, NothingRan | NothingValid):
        return NOTHING_RAN
    return WRONG if isinstance(error, Undefined) else BAD_INPUT


app = typer.Typer(
    cls=Verbs,
    name="presil",
    help="Pre-silicon benchmarks: describe a chip, get kernels that are proved right, timed and ranked.",
    epilog="Exit codes: 0 done, 1 a kernel is wrong, 2 bad input, 3 nothing ran, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes half of the time that `--help` may take
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (machines, operators, run, search, simulate, check, report, replicate, calibrate, validate, area):
    # The mark `\b` keeps the lines of the examples apart; a docstring should not need to hold it.
    app.command(help=inspect.cleandoc(verb.__doc__ or "").replace("Examples:", "\b\nExamples:"))(verb)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"presil {version('presil')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before the verb."""


def main() -> None:
    """Runs the command line of this process and exits."""
    app()


if __name__ == "__main__":
    main()
