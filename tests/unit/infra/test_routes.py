"""Every route is complete: it has a handler, a function, a role, a log group, an alarm and a sample event."""

import json

import pytest

from cli.serve.routes import ANY, read_routes
from cli.serve.routes import TEMPLATE as TEMPLATE_FILE
from core.settings import MAX_URL_SECONDS, MIN_URL_SECONDS, Settings
from handlers.unknown_route import ALLOWED
from infra.build import OTHER_STACKS, READ_TABLES, WORKERS
from infra.template import UNKNOWN_ROUTE, render_template, render_unknown_route
from tests.unit.infra.template import ALARMS, FUNCTIONS, PROJECT, RESOURCES, TEMPLATE, arn, of_type, ref

ROUTES = read_routes()
MODULES = {path.stem for path in (PROJECT / "handlers").glob("[!_]*.py")} - OTHER_STACKS
EVENTS = {path.stem: json.loads(path.read_text()) for path in (PROJECT / "events").glob("*.json")}


def module(function: str) -> str:
    return FUNCTIONS[function]["Handler"].split(".")[1]


def test_every_handler_belongs_to_one_function_and_every_function_to_one_handler():
    assert {f"handlers.{module}.lambda_handler" for module in MODULES} == {
        properties["Handler"] for properties in FUNCTIONS.values()
    }
    assert len(FUNCTIONS) == len(MODULES)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_named_after_its_handler_and_has_a_role_a_log_group_and_an_alarm_of_its_own(function):
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
def test_a_function_has_a_route_and_a_sample_event_unless_it_is_a_worker(function):
    if module(function) in WORKERS:
        assert {event["Type"] for event in FUNCTIONS[function]["Events"].values()} == {"SQS"}
        return
    assert any(route.function.name == function for route in ROUTES)
    assert module(function) in EVENTS


@pytest.mark.parametrize("name", EVENTS)
def test_a_sample_event_is_named_after_the_function_that_receives_it(name):
    path = EVENTS[name]["requestContext"]["path"]
    function = ROUTES.match(EVENTS[name]["httpMethod"], path).route.function.name
    assert name == module(function) or name.startswith(f"{module(function)}_")


def test_routes_are_unique():
    routes = [(route.method, route.resource) for route in ROUTES]
    assert len(routes) == len(set(routes))


def test_the_unknown_route_accepts_all_other_paths_and_methods():
    assert {route.resource for route in ROUTES if route.function.name == "UnknownRoute"} == {"/", "/{proxy+}"}
    assert all((route.method == ANY) == (route.function.name == "UnknownRoute") for route in ROUTES)


def test_generated_parts_are_up_to_date():
    assert render_template() == TEMPLATE_FILE.read_text(), "Run `make template`."
    assert render_unknown_route() == UNKNOWN_ROUTE.read_text(), "Run `make template`."


def test_the_unknown_route_knows_the_methods_of_every_other_route():
    methods: dict[str, tuple[str, ...]] = {}
    for route in sorted(ROUTES, key=lambda route: route.method):
        if route.method != ANY:
            path = route.resource.removeprefix("/")
            methods[path] = (*methods.get(path, ()), route.method)
    assert methods == ALLOWED


def test_a_function_times_out_before_api_gateway_does():
    assert all(route.function.timeout_seconds < 29 for route in ROUTES if not route.streams)


def test_the_routes_that_list_files_stream():
    assert {route.function.name for route in ROUTES if route.streams} == {"QueryTable", "TableChanges", "QueryStatus"}


def test_the_stage_is_the_prefix_of_the_endpoint_also_under_a_custom_domain():
    assert TEMPLATE["Parameters"]["Prefix"]["Default"] == "delta-sharing"
    assert RESOURCES["Api"]["Properties"]["StageName"] == ref("Prefix")
    assert RESOURCES["DomainMapping"]["Properties"]["BasePath"] == ref("Prefix")


READ_BY_LIBRARIES = {"POWERTOOLS_LOG_LEVEL", "POWERTOOLS_SERVICE_NAME", "AWS_LAMBDA_EXEC_WRAPPER"}


def test_functions_read_every_environment_variable_that_the_template_sets():
    read = set()

    class Environment(dict):
        def get(self, name, default=None):
            read.add(name)
            return default

    Settings.from_environment(Environment())
    set_for_some = [properties.get("Environment", {"Variables": {}}) for properties in FUNCTIONS.values()]
    for environment in (TEMPLATE["Globals"]["Function"]["Environment"], *set_for_some):
        assert set(environment["Variables"]) <= read | READ_BY_LIBRARIES


def test_functions_that_read_logs_have_the_index_ephemeral_storage_and_a_snapshot_cache():
    in_full_package = {
        properties["Handler"].split(".")[1]: properties
        for properties in FUNCTIONS.values()
        if properties.get("CodeUri") == "full"
    }
    assert in_full_package.keys() == READ_TABLES | WORKERS
    readers = [properties for name, properties in in_full_package.items() if name in READ_TABLES]
    for reader in readers:
        assert reader["EphemeralStorage"] == {"Size": ref("DiskMegabytes")}
        variables = {"SLUICE_SNAPSHOT_CACHE_MB": ref("SnapshotCacheMegabytes"), "SLUICE_INDEX_TABLE": ref("IndexTable")}
        assert reader["Environment"]["Variables"].items() >= variables.items()
        # Reading a log of a million files takes 300 MB in addition to imported modules.
        assert TEMPLATE["Parameters"]["SnapshotCacheMegabytes"]["MaxValue"] <= reader["MemorySize"] - 500


def test_the_parameter_for_the_lifetime_of_urls_has_the_limits_of_the_setting():
    parameter = TEMPLATE["Parameters"]["UrlSeconds"]
    assert (parameter["MinValue"], parameter["MaxValue"]) == (MIN_URL_SECONDS, MAX_URL_SECONDS)


def test_an_api_gateway_resource_is_created_before_the_logging_role_is_set():
    """CloudFormation requires this in accounts that never had an API Gateway resource."""
    resources = TEMPLATE["Resources"]
    assert resources["Api"]["DependsOn"] == "ApiGatewayAccount"
    first = resources[resources["ApiGatewayAccount"]["DependsOn"]]
    assert first["Type"] == "AWS::ApiGateway::ApiKey"
    assert first["Condition"] == resources["ApiGatewayAccount"]["Condition"]
    assert first["Properties"]["Enabled"] is False


def test_the_dashboard_shows_only_metrics_that_the_functions_write():
    source = (PROJECT / "core" / "runtime" / "observability.py").read_text()
    body, _ = of_type("AWS::CloudWatch::Dashboard")["Dashboard"]["DashboardBody"]["Fn::Sub"]
    shown = {"Latency", "FirstByte", "Errors", "FilesListed", "FilesPruned", "UrlsSigned"}
    for metric in shown:
        assert f'"{metric}' in body.replace("\\", "")
        assert f'add_metric("{metric}"' in source
    assert [widget["properties"]["region"] for widget in json.loads(body)["widgets"]] == ["${AWS::Region}"] * 6
