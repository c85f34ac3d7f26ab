"""The settings of a run of the index job: its code, its environment and its size.

Every run gets all of them from the function that starts it, and the EMR application has none. A new release therefore
changes only the function: EMR Serverless does not allow updating an application while runs are active.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

# The objects of a release (infra/build_job.py).
ENTRY_POINT = "job.py"
SOURCES = "sluice.zip"
DEPENDENCIES = "dependencies.zip"
# Spark unpacks the dependencies into this folder of every driver and executor.
DEPENDENCIES_FOLDER = "dependencies"
# The EMR release has several versions of Python. The dependencies are built for this one.
PYTHON = "python3.13"

SIZES = {
    "spark.driver.cores": "2",
    "spark.driver.memory": "6g",
    "spark.executor.cores": "4",
    # Half of an executor's 16 GB is for its Python processes, which build the chunks.
    "spark.executor.memory": "8g",
    "spark.executor.memoryOverhead": "8g",
    "spark.dynamicAllocation.initialExecutors": "1",
}


@dataclass(frozen=True, slots=True)
class JobConfiguration:
    """The settings that all runs share."""

    application_id: str
    role_arn: str
    release: str
    """URI of the folder with the objects of the release."""
    arguments: tuple[str, ...]
    timeout_minutes: int
    variables: Mapping[str, str]
    """Environment variables of the driver and the executors."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "JobConfiguration":
        """Reads the settings from the environment of the function that starts runs."""
        names = ("AWS_REGION", "SLUICE_CATALOG_TABLE", "SLUICE_INDEX_TABLE", "SLUICE_STORAGE_ROLE_ARN")
        variables = {name: environment[name] for name in names}
        if external_id := environment["SLUICE_STORAGE_EXTERNAL_ID"]:
            variables["SLUICE_STORAGE_EXTERNAL_ID"] = external_id
        return cls(
            environment["SLUICE_JOB_APPLICATION_ID"],
            environment["SLUICE_JOB_ROLE_ARN"],
            environment["SLUICE_JOB_RELEASE"],
            tuple(shlex.split(environment["SLUICE_JOB_ARGUMENTS"])),
            int(environment["SLUICE_JOB_TIMEOUT_MINUTES"]),
            variables,
        )

    @property
    def entry_point(self) -> str:
        return f"{self.release}/{ENTRY_POINT}"

    def spark_properties(self) -> dict[str, str]:
        variables = {"PYSPARK_PYTHON": PYTHON, "PYTHONPATH": f"./{DEPENDENCIES_FOLDER}", **self.variables}
        driver = {**variables, "PYSPARK_DRIVER_PYTHON": PYTHON}
        return {
            "spark.archives": f"{self.release}/{DEPENDENCIES}#{DEPENDENCIES_FOLDER}",
            "spark.submit.pyFiles": f"{self.release}/{SOURCES}",
            **SIZES,
            **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver.items()},
            **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
        }
