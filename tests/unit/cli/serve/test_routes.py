"""Which route a request matches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.serve.routes import Function, Route, Routes, read_routes
from core.errors import NotFoundError
from tests.examples import examples

UNKNOWN = "handlers.unknown_route.lambda_handler"
TABLE = "/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}"
FUNCTION = Function("F", "module.handler", 128, 3)


@pytest.fixture(scope="module")
def routes() -> Routes:
    return read_routes()


@pytest.mark.parametrize(
    ("method", "path", "handler", "parameters"),
    [
        ("GET", "/delta-sharing/shares", "list_shares", {}),
        ("GET", "/delta-sharing/shares/s", "get_share", {"share": "s"}),
        ("GET", "/delta-sharing/shares/s/schemas", "list_schemas", {"share": "s"}),
        ("GET", "/delta-sharing/shares/s/all-tables", "list_all_tables", {"share": "s"}),
        ("GET", "/delta-sharing/shares/s/schemas/d/tables", "list_tables", {"share": "s", "schema": "d"}),
        ("GET", TABLE, "get_table", None),
        ("HEAD", TABLE, "table_version", None),
        ("GET", TABLE + "/version", "table_version", None),
        ("GET", TABLE + "/metadata", "table_metadata", None),
        ("POST", TABLE + "/query", "query_table", None),
        ("GET", TABLE + "/changes", "table_changes", None),
        ("POST", TABLE + "/queries/{queryId}", "query_status", None),
        ("POST", TABLE + "/temporary-table-credentials", "temporary_table_credentials", None),
    ],
)
def test_every_route_of_the_protocol_has_its_function(routes, method, path, handler, parameters):
    match = routes.match(method, path)
    assert match.route.function.handler == f"handlers.{handler}.lambda_handler"
    if parameters is not None:
        assert match.path_parameters == parameters


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/delta-sharing", "/"),
        ("/delta-sharing/", "/"),
        ("/delta-sharing/shares/", "/{proxy+}"),
        ("/delta-sharing//shares", "/{proxy+}"),
        ("/delta-sharing/shares//schemas", "/{proxy+}"),
        ("/delta-sharing/Shares", "/{proxy+}"),
        ("/delta-sharing/shares/s/schemas/d/tables/t/unknown", "/{proxy+}"),
        ("/delta-sharing/shares/s/schemas/d%2Ftables", "/{proxy+}"),
    ],
)
def test_an_unknown_path_matches_the_unknown_route(routes, path, resource):
    match = routes.match("GET", path)
    assert (match.route.function.handler, match.route.resource) == (UNKNOWN, resource)


@pytest.mark.parametrize("path", ["/", "", "*", "/shares", "/delta-sharing-2/shares"])
def test_a_path_outside_the_prefix_matches_no_route(routes, path):
    with pytest.raises(NotFoundError):
        routes.match("GET", path)


def test_another_method_on_a_known_path_matches_the_unknown_route(routes):
    match = routes.match("DELETE", "/delta-sharing/shares/s/schemas/d/tables/t")
    assert match.route.function.handler == UNKNOWN
    assert match.path_parameters == {"proxy": "shares/s/schemas/d/tables/t"}


@given(st.permutations(["/a/b", "/a/{x}", "/{all+}"]))
def test_exact_segments_precede_variables_and_those_precede_greedy_ones_in_any_order(resources):
    routes = Routes(Route("GET", resource, FUNCTION) for resource in resources)
    assert routes.match("GET", "/a/b").route.resource == "/a/b"
    assert routes.match("GET", "/a/c").route.resource == "/a/{x}"
    assert routes.match("GET", "/a/b/c").route.resource == "/{all+}"
    assert routes.match("GET", "/a/b/c").path_parameters == {"all": "a/b/c"}


def test_a_method_precedes_any_in_any_order():
    named, other = Route("GET", "/a", FUNCTION), Route("ANY", "/a", FUNCTION)
    for order in ([named, other], [other, named]):
        assert Routes(order).match("GET", "/a").route is named
        assert Routes(order).match("PUT", "/a").route is other


def test_path_and_method_must_match_together_as_on_api_gateway():
    routes = Routes([Route("GET", "/a/b", FUNCTION), Route("POST", "/a/{x}", FUNCTION)])
    assert routes.match("POST", "/a/b").path_parameters == {"x": "b"}
    with pytest.raises(NotFoundError):
        routes.match("PUT", "/a/b")


def test_another_prefix_replaces_the_default():
    match = read_routes(prefix="/sharing/v2").match("GET", "/sharing/v2/shares")
    assert (match.route.resource, match.path) == ("/shares", "/shares")
    with pytest.raises(NotFoundError):
        read_routes(prefix="/sharing/v2").match("GET", "/delta-sharing/shares")


def test_without_a_prefix_the_routes_start_at_the_root():
    assert read_routes(prefix="").match("GET", "/shares").route.resource == "/shares"


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.text("abc%2F.~+é ", min_size=1), min_size=3, max_size=3))
def test_path_parameters_keep_their_encoding(routes, names):
    share, schema, table = names
    match = routes.match("POST", f"/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/query")
    assert match.path_parameters == {"share": share, "schema": schema, "table": table}
