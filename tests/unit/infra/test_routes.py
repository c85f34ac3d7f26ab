"""A route cannot be added by half: it needs a handler, and with it a role, a log group, an alarm and an event."""

import json

import pytest

from cli.serve.routes import ANY, read_routes
from core.settings import MAX_URL_SECONDS, MIN_URL_SECONDS, Settings
from handlers.unknown_route import ALLOWED
from infra.build import READ_TABLES
from tests.unit.infra.template import ALARMS, FUNCTIONS, PROJECT, RESOURCES, TEMPLATE, arn, of_type, ref

ROUTES = read_routes()
MODULES = {path.stem for path in (PROJECT / "handlers").glob("[!_]*.py")}
EVENTS = {path.stem: json.loads(path.read_text()) for path in (PROJECT / "events").glob("*.json")}


def module(function: str) -> str:
    return FUNCTIONS[function]["Handler"].split(".")[1]


def test_every_handler_is_a_function_and_every_function_a_handler():
    assert {f"handlers.{module}.lambda_handler" for module in MODULES} == {
        properties["Handler"] for properties in FUNCTIONS.values()
    }
    assert len(FUNCTIONS) == len(MODULES)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_its_name_its_role_its_log_group_and_its_alarm(function):
    assert function == "".join(word.capitalize() for word in module(function).split("_"))
    properties = FUNCTIONS[function]
    assert properties["Role"] == arn(f"{function}Role")
    assert RESOURCES[f"{function}Role"]["Type"] == "AWS::IAM::Role"
    assert properties["LoggingConfig"]["LogGroup"] == ref(f"{function}Logs")
    assert RESOURCES[f"{function}Logs"]["Type"] == "AWS::Logs::LogGroup"
    alarm = ALARMS[f"{function}Errors"]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", "Errors")
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": ref(function)}]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_a_route_and_a_sample_event(function):
    assert any(route.function.name == function for route in ROUTES)
    assert module(function) in EVENTS


@pytest.mark.parametrize("name", EVENTS)
def test_a_sample_event_is_named_after_the_function_that_gets_it(name):
    path = EVENTS[name]["requestContext"]["path"]
    function = ROUTES.match(EVENTS[name]["httpMethod"], path).route.function.name
    assert name == module(function) or name.startswith(f"{module(function)}_")


def test_no_two_routes_are_the_same():
    routes = [(route.method, route.resource) for route in ROUTES]
    assert len(routes) == len(set(routes))


def test_the_unknown_route_takes_what_the_others_leave():
    assert {route.resource for route in ROUTES if route.function.name == "UnknownRoute"} == {"/", "/{proxy+}"}
    assert all((route.method == ANY) == (route.function.name == "UnknownRoute") for route in ROUTES)


def test_the_unknown_route_knows_the_methods_of_every_other():
    methods: dict[str, tuple[str, ...]] = {}
    for route in sorted(ROUTES, key=lambda route: route.method):
        if route.method != ANY:
            path = route.resource.removeprefix("/")
            methods[path] = (*methods.get(path, ()), route.method)
    assert methods == ALLOWED


def test_a_function_gives_up_before_api_gateway_does():
    assert all(route.function.timeout_seconds < 29 for route in ROUTES)


def test_the_endpoint_is_the_stage_and_a_custom_domain_keeps_its_path():
    assert TEMPLATE["Parameters"]["Prefix"]["Default"] == "delta-sharing"
    assert RESOURCES["Api"]["Properties"]["StageName"] == ref("Prefix")
    assert RESOURCES["DomainMapping"]["Properties"]["BasePath"] == ref("Prefix")


POWERTOOLS_VARIABLES = {"POWERTOOLS_LOG_LEVEL", "POWERTOOLS_SERVICE_NAME"}


def test_every_variable_that_the_template_sets_is_one_that_the_functions_read():
    read = set()

    class Environment(dict):
        def get(self, name, default=None):
            read.add(name)
            return default

    Settings.from_environment(Environment())
    set_for_some = [properties.get("Environment", {"Variables": {}}) for properties in FUNCTIONS.values()]
    for environment in (TEMPLATE["Globals"]["Function"]["Environment"], *set_for_some):
        assert set(environment["Variables"]) <= read | POWERTOOLS_VARIABLES


def test_the_functions_that_read_logs_have_the_index_a_disk_and_part_of_their_memory_for_what_they_read():
    readers = [properties for properties in FUNCTIONS.values() if properties.get("CodeUri") == "full"]
    assert {reader["Handler"].split(".")[1] for reader in readers} == READ_TABLES
    for reader in readers:
        assert reader["EphemeralStorage"] == {"Size": ref("DiskMegabytes")}
        variables = {"SLUICE_SNAPSHOT_CACHE_MB": ref("SnapshotCacheMegabytes"), "SLUICE_INDEX_TABLE": ref("IndexTable")}
        assert reader["Environment"]["Variables"] == variables
        # A million files are read in 300 MB, after all imports.
        assert TEMPLATE["Parameters"]["SnapshotCacheMegabytes"]["MaxValue"] <= reader["MemorySize"] - 500


def test_the_lifetime_of_urls_has_the_limits_of_the_functions():
    parameter = TEMPLATE["Parameters"]["UrlSeconds"]
    assert (parameter["MinValue"], parameter["MaxValue"]) == (MIN_URL_SECONDS, MAX_URL_SECONDS)


def test_api_gateway_knows_the_account_before_its_logging_role_is_set():
    """As CloudFormation demands in an account that never had a resource of API Gateway."""
    resources = TEMPLATE["Resources"]
    assert resources["Api"]["DependsOn"] == "ApiGatewayAccount"
    first = resources[resources["ApiGatewayAccount"]["DependsOn"]]
    assert first["Type"] == "AWS::ApiGateway::ApiKey"
    assert first["Condition"] == resources["ApiGatewayAccount"]["Condition"]
    assert first["Properties"]["Enabled"] is False


def test_the_dashboard_shows_metrics_that_the_functions_write():
    source = (PROJECT / "core" / "runtime" / "observability.py").read_text()
    body, _ = of_type("AWS::CloudWatch::Dashboard")["Dashboard"]["DashboardBody"]["Fn::Sub"]
    shown = {"Latency", "Errors", "FilesListed", "FilesPruned", "UrlsSigned"}
    for metric in shown:
        assert f'"{metric}' in body.replace("\\", "")
        assert f'add_metric("{metric}"' in source
    assert [widget["properties"]["region"] for widget in json.loads(body)["widgets"]] == ["${AWS::Region}"] * 6
