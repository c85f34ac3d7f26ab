"""What the job understands of its arguments."""

import pytest

from pipeline.job import main


@pytest.mark.parametrize("number", ["-1", "2001", "1.5", "all", "", "1e3"])
def test_a_number_of_columns_that_is_none_is_refused_with_the_numbers_that_are(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--all", f"--columns={number}"])

    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"argument --columns: {number!r} is not a whole number from 0 to 2000" in told.err
