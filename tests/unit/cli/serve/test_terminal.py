"""The endpoint prefix of `sluice serve`."""

import pytest

from cli.apply.shares_file import SharesFile
from cli.common.errors import CommandError
from cli.serve.terminal import prefix_of


@pytest.mark.parametrize(
    ("endpoint", "prefix"),
    [(None, "/delta-sharing"), ("/delta-sharing", "/delta-sharing"), ("/a/b-c/", "/a/b-c"), ("/", "")],
)
def test_the_endpoint_of_the_file_is_the_prefix_of_all_routes(endpoint, prefix):
    assert prefix_of(SharesFile(version=1, endpoint=endpoint)) == prefix


def test_without_a_file_the_prefix_is_the_default():
    assert prefix_of(None) == "/delta-sharing"


@pytest.mark.parametrize("endpoint", ["delta-sharing", "/a b", "/a?b", "/a//b", "/{share}", "/é", "/a%20b"])
def test_an_endpoint_that_is_not_a_path_is_rejected(endpoint):
    with pytest.raises(CommandError, match="Expected a path such as /delta-sharing"):
        prefix_of(SharesFile(version=1, endpoint=endpoint))
