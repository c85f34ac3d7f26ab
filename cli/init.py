"""`sluice init`: creates the catalog."""

from typing import Annotated

import typer

from cli.common.options import Json, account_of
from cli.common.output import Output


def init(
    context: typer.Context,
    rotate_keys: Annotated[
        bool,
        typer.Option(
            "--rotate-keys",
            help="Create a new key that signs page tokens. Tokens signed with the previous key stay valid.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create the catalog, a DynamoDB table. Does nothing if it exists.

    A deployed stack already has one (output CatalogTable). To deploy a stack with a catalog that you created first, set
    its parameter ExistingCatalogTable.

    Example: sluice --region eu-west-1 init
    """
    account = account_of(context)
    admin = account.admin()
    admin.create_catalog()
    if rotate_keys:
        admin.rotate_signing_keys()
    catalog = account.settings.catalog_table
    document = {"catalog": catalog, "region": account.region}
    Output(as_json=as_json).done(f"The catalog '{catalog}' in {account.region} is ready.", document)
