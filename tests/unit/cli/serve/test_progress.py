"""The progress of a start without a terminal."""

import io

from cli.serve.progress import PlainLines, start_progress


def lines_of(*reports: tuple[float, str]) -> list[str]:
    """Returns the lines that are written if these texts are reported at these times."""
    stream, times = io.StringIO(), [0.0]
    with PlainLines(stream, line_seconds=2.0, now=lambda: times[-1]) as progress:
        for at, text in reports:
            times.append(at)
            progress.update(text)
    return stream.getvalue().splitlines()


def test_a_long_copy_writes_a_line_every_few_seconds():
    copying = [(at / 10, f"Copying /data/orders: {at} of 80 files") for at in range(81)]
    assert lines_of((0.0, "Starting the embedded AWS"), *copying) == [
        f"Copying /data/orders: {done} of 80 files" for done in (20, 40, 60, 80)
    ]


def test_short_steps_write_nothing():
    assert lines_of((0.0, "Starting the embedded AWS"), (5.0, "Copying a: 1 of 1 files"), (9.0, "Starting")) == []


def test_each_table_has_its_own_count():
    reports = [(0.0, "Copying a: 1 of 2 files"), (2.0, "Copying a: 2 of 2 files"), (3.9, "Copying b: 1 of 2 files")]
    assert lines_of(*reports, (5.0, "Copying b: 2 of 2 files")) == ["Copying a: 2 of 2 files"]


def test_without_a_terminal_lines_are_written_instead_of_a_spinner():
    assert isinstance(start_progress(io.StringIO()), PlainLines)
