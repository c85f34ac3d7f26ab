"""The four listings of the protocol behind one interface, so that one test covers all of them."""

from tests.unit.catalog.environment import Environment


class Lister:
    """A listing and the recipient who reads it. `add` and `remove` change its entries."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        env.share("Main")
        self.token = env.recipient("ann", "main")

    def names(self, listing) -> list[str]:
        return [item.name for item in listing.items]


class Shares(Lister):
    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        env.admin.remove_share("main")

    def add(self, name):
        self.env.share(name)
        self.env.admin.grant("ann", name)

    def remove(self, name):
        self.env.admin.remove_share(name)

    def list(self, catalog, page, token=None, **options):
        return catalog.list_shares(token or self.token, page, **options)


class Schemas(Lister):
    def add(self, name):
        self.env.admin.put_schema("main", name)

    def remove(self, name):
        self.env.admin.remove_schema("main", name)

    def list(self, catalog, page, token=None, **options):
        return catalog.list_schemas(token or self.token, "main", page, **options)


class Tables(Lister):
    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        env.admin.put_schema("main", "Schema")

    def add(self, name):
        self.env.admin.put_table("main", "schema", name, location="s3://bucket/table")

    def remove(self, name):
        self.env.admin.remove_table("main", "schema", name)

    def list(self, catalog, page, token=None, **options):
        return catalog.list_tables(token or self.token, "main", "schema", page, **options)


class AllTables(Tables):
    def list(self, catalog, page, token=None, **options):
        return catalog.list_all_tables(token or self.token, "main", page, **options)


LISTERS = [Shares, Schemas, Tables, AllTables]
