"""`infra/template.yaml` as CloudFormation sees it: expanded by the real SAM translator, with conditions resolved.

The translator runs in the environment of SAM CLI. Conditions are resolved here, because CloudFormation does that after
the translation.
"""

import json
import subprocess
from typing import Any

from cli.embedded.environment import tool_python
from cli.serve.routes import TEMPLATE
from tests.server import ROOT

TRANSLATE = """
import json, sys, time
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

class NoManagedPolicies:
    def load(self):
        return {}

template = yaml_parse(open(sys.argv[1]).read())
parameters, now = json.loads(sys.argv[2]), float(sys.argv[3])
time.time = lambda: now
functions = [resource["Properties"] for resource in template["Resources"].values()
             if resource["Type"] == "AWS::Serverless::Function"]
for properties in (template["Globals"]["Function"], *functions):
    if "CodeUri" in properties:
        properties["CodeUri"] = "s3://packages/" + properties["CodeUri"]  # what `sam deploy` does
json.dump(transform(template, parameters, NoManagedPolicies()), sys.stdout)
"""
NO_VALUE = {"Ref": "AWS::NoValue"}


def transformed(now: float = 0, **parameters: str) -> dict[str, Any]:
    """Returns the resources of the template with these parameters, translated at a time."""
    arguments = (str(TEMPLATE), json.dumps(parameters), str(now))
    done = subprocess.run(
        [str(tool_python(ROOT / "infra" / "sam.txt")), "-c", TRANSLATE, *arguments],
        env={"AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    defaults = {name: parameter.get("Default", "") for name, parameter in document["Parameters"].items()}
    resources = _Conditions(document["Conditions"], {**defaults, **parameters}).resolve(document["Resources"])
    return dict(resources)


class _Conditions:
    def __init__(self, conditions: dict[str, Any], parameters: dict[str, Any]) -> None:
        self._conditions = conditions
        self._parameters = parameters

    def resolve(self, value: Any) -> Any:
        """Replaces `Fn::If` by the branch that its condition selects. Other functions stay."""
        if isinstance(value, dict):
            if "Fn::If" in value:
                condition, if_true, if_false = value["Fn::If"]
                return self.resolve(if_true if self._holds({"Condition": condition}) else if_false)
            resolved = {name: self.resolve(item) for name, item in value.items()}
            return {name: item for name, item in resolved.items() if item != NO_VALUE}
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item != NO_VALUE]
        return value

    def _holds(self, condition: dict[str, Any]) -> bool:
        match condition:
            case {"Condition": name}:
                return self._holds(self._conditions[name])
            case {"Fn::Not": [negated]}:
                return not self._holds(negated)
            case {"Fn::Or": alternatives}:
                return any(map(self._holds, alternatives))
            case {"Fn::Equals": [first, second]}:
                return bool(self._parameter(first) == self._parameter(second))
        raise NotImplementedError(str(condition))

    def _parameter(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return self._parameters[name]
            case {"Fn::Select": [index, {"Ref": name}]}:
                return self._parameters[name].split(",")[index]
        return value
