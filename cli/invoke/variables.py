"""The environment variables of an invoked function: those that it would have in Lambda, from the caller's account."""

import os
import shlex
import sysconfig
from pathlib import Path

from cli.common.account import Account
from cli.common.errors import CommandError
from cli.serve.routes import Function

ROOT = Path(__file__).parents[2]
"""The folder with `handlers` and `core`: the checkout, or the site-packages of an installed command."""
PASSED_ON = ("AWS_", "SLUICE_", "POWERTOOLS_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
# The keys of the caller replace them: a function has no profile.
CREDENTIAL_SOURCES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN")


def load_env_file(path: Path) -> None:
    """Sets the variables of a file with lines `NAME=value`, `export NAME=value` and `unset NAME`, as in a shell."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = ["?"]
        match words:
            case []:
                pass
            case ["unset", *names]:
                for name in names:
                    os.environ.pop(name, None)
            case ["export", *assignments] | assignments:
                _assign(assignments, f"{path}:{number}")


def _assign(assignments: list[str], place: str) -> None:
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name.isidentifier():  # the message must not show the line, which may hold a secret
            raise CommandError(f"{place}: expected NAME=value, `export NAME=value` or `unset NAME`.")
        os.environ[name] = value


def function_variables(account: Account, function: Function) -> dict[str, str]:
    """Returns the variables of a function that runs from source with the packages of this command.

    Exports the account to the environment of this process.
    """
    credentials = account.session.get_credentials()
    if credentials is None:
        raise CommandError(
            "No AWS credentials found. Use --env-file with the file of `sluice serve --admin-env-out`, or set "
            "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    account.export()
    keys = credentials.get_frozen_credentials()
    inherited = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON) or name in PROXIES}
    for name in CREDENTIAL_SOURCES:
        inherited.pop(name, None)
    packages = dict.fromkeys((str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    return {
        "POWERTOOLS_METRICS_DISABLED": "true",
        **inherited,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_ACCESS_KEY_ID": keys.access_key or "",
        "AWS_SECRET_ACCESS_KEY": keys.secret_key or "",
        **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "PYTHONPATH": os.pathsep.join(packages),
    }
