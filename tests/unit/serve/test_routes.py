"""Which route a request means."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.serve.routes import Function, Route, Routes, read_routes
from core.errors import MethodNotAllowedError, NotFoundError

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
    "path",
    [
        "/",
        "",
        "/shares",
        "/delta-sharing",
        "/delta-sharing/",
        "/delta-sharing/shares/",
        "/delta-sharing//shares",
        "/delta-sharing/shares//schemas",
        "/delta-sharing/Shares",
        "/delta-sharing/shares/s/schemas/d/tables/t/unknown",
        "/delta-sharing/shares/s/schemas/d%2Ftables",
    ],
)
def test_an_unknown_path_is_not_found(routes, path):
    with pytest.raises(NotFoundError):
        routes.match("GET", path)


def test_another_method_on_a_known_path_is_told_what_is_allowed(routes):
    with pytest.raises(MethodNotAllowedError) as raised:
        routes.match("DELETE", "/delta-sharing/shares/s/schemas/d/tables/t")
    assert raised.value.allowed == ("GET", "HEAD")


def test_an_exact_segment_wins_over_a_variable_whatever_their_order():
    exact, variable = Route("GET", "/a/b", FUNCTION), Route("GET", "/a/{x}", FUNCTION)
    for order in ([exact, variable], [variable, exact]):
        assert Routes(order).match("GET", "/a/b").route is exact
        assert Routes(order).match("GET", "/a/c").route is variable


def test_a_method_that_only_the_less_exact_path_has_is_not_allowed():
    routes = Routes([Route("GET", "/a/b", FUNCTION), Route("POST", "/a/{x}", FUNCTION)])
    with pytest.raises(MethodNotAllowedError):
        routes.match("POST", "/a/b")


def test_another_prefix_takes_the_place_of_the_templates():
    routes = read_routes(prefix="/sharing/v2")
    assert routes.match("GET", "/sharing/v2/shares").route.resource == "/sharing/v2/shares"
    with pytest.raises(NotFoundError):
        routes.match("GET", "/delta-sharing/shares")


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text("abc%2F.~+é ", min_size=1), min_size=3, max_size=3))
def test_names_come_out_as_they_stood_in_the_path(routes, names):
    share, schema, table = names
    match = routes.match("POST", f"/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/query")
    assert match.path_parameters == {"share": share, "schema": schema, "table": table}
