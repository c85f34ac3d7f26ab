"""Removes Python's type names from the help of all commands."""

from typing import Any

import typer


def without_type_names(command: Any) -> Any:
    """Returns the command with `--json` and `SHARE` in its help, where Typer shows `--json <bool>` and `{SHARE} <str>`.

    Other options say what they take in their own `metavar`.
    """
    for parameter in command.get_params(typer.Context(command)):
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type
            parameter.get_usage_pieces = _usage(parameter)
        elif parameter.is_flag:
            parameter.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        without_type_names(subcommand)
    return command


def _no_type(ctx: object) -> None:  # noqa: ARG001 - Typer passes it by name
    return None


def _usage(argument: Any) -> Any:
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return lambda _context: [name + ("..." if argument.nargs != 1 else "")]
