"""The template is the one list of routes: it, the handlers and the sample events name the same functions."""

from pathlib import Path

from cli.serve.routes import read_routes

PROJECT = Path(__file__).parents[2]


def functions_in_template() -> set[str]:
    return {route.function.handler for route in read_routes()}


def test_every_route_has_its_handler_and_every_handler_its_route():
    modules = {path.stem for path in (PROJECT / "handlers").glob("[!_]*.py")}
    assert functions_in_template() == {f"handlers.{module}.lambda_handler" for module in modules}


def test_every_function_has_a_sample_event():
    events = {path.stem for path in (PROJECT / "events").glob("*.json")}
    assert functions_in_template() == {f"handlers.{event}.lambda_handler" for event in events}


def test_a_function_is_named_as_its_handler():
    for route in read_routes():
        module = route.function.handler.split(".")[1]
        assert route.function.name == "".join(word.capitalize() for word in module.split("_"))


def test_no_two_routes_are_the_same():
    routes = [(route.method, route.resource) for route in read_routes()]
    assert len(routes) == len(set(routes))


def test_a_function_gives_up_before_api_gateway_does():
    assert all(route.function.timeout_seconds < 29 for route in read_routes())
