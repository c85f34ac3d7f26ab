"""The arguments of the job."""

import pytest

from pipeline.job import main


@pytest.mark.parametrize("number", ["-1", "2001", "1.5", "all", "", "1e3"])
def test_an_invalid_number_of_columns_is_rejected_with_the_valid_range(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--all", f"--columns={number}"])

    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"argument --columns: {number!r} is not a whole number from 0 to 2000" in shown.err
