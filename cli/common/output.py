"""Output of a command: text (rich), or with `--json` one JSON document.

With `--json`, stdout holds only that document, or `{"error": "…"}` if the command fails. Notes and questions always go
to stderr, so stdout can be piped.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

UNWRAPPED_WIDTH = 4096


class Output:
    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def document(self, value: Any) -> None:
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def records(self, records: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        """Prints a list, as a table with these columns (key → heading) or with all keys as JSON."""
        if self.as_json:
            self.document(list(records))
        elif records:
            table = Table(*columns.values(), box=None, pad_edge=False, header_style="bold")
            for record in records:
                table.add_row(*(Text(_words(record[key])) for key in columns))
            self.print(table)
        else:
            self.note("No entries.")

    def record(self, record: Mapping[str, Any]) -> None:
        """Prints one record, as a line for each key that has a value or with all keys as JSON."""
        if self.as_json:
            self.document(record)
            return
        table = Table(box=None, pad_edge=False, show_header=False)
        for key, value in record.items():
            if value not in (None, [], {}, ""):
                table.add_row(Text(key, style="bold"), Text(_words(value)))
        self.print(table)

    def done(self, sentence: str, document: Mapping[str, Any]) -> None:
        """Prints the result of a command: the sentence, or the document as JSON."""
        if self.as_json:
            self.document(document)
        else:
            self.print(sentence)

    def print(self, content: str | Text | Table) -> None:
        console(sys.stdout).print(content)

    def note(self, content: str | Text) -> None:
        console(sys.stderr).print(content)

    def fail(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        if self.as_json:
            self.document({"error": message, **(details or {})})
        else:
            self.note(Text("Error: ", style="bold red") + Text(message))


def console(stream: TextIO) -> Console:
    """Returns a console that wraps lines only for a terminal, not for a pipe."""
    width = None if stream.isatty() else UNWRAPPED_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _words(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return "\n".join(f"{key}={word}" for key, word in value.items())
        case list() | tuple():
            return "\n".join(_words(element) for element in value)
    return str(value)
