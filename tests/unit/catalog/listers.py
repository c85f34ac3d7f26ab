"""The four lists of the protocol behind one interface, so that one test can speak of all of them."""

from tests.unit.catalog.world import World


class Lister:
    """A list of one kind, with the recipient who reads it; `add` and `remove` change what it shows."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.share("Main")
        self.token = world.recipient("ann", "main")

    def names(self, listing) -> list[str]:
        return [item.name for item in listing.items]


class Shares(Lister):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.admin.remove_share("main")

    def add(self, name):
        self.world.share(name)
        self.world.admin.grant("ann", name)

    def remove(self, name):
        self.world.admin.remove_share(name)

    def list(self, catalog, page, token=None):
        return catalog.list_shares(token or self.token, page)


class Schemas(Lister):
    def add(self, name):
        self.world.admin.put_schema("main", name)

    def remove(self, name):
        self.world.admin.remove_schema("main", name)

    def list(self, catalog, page, token=None):
        return catalog.list_schemas(token or self.token, "main", page)


class Tables(Lister):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.admin.put_schema("main", "Schema")

    def add(self, name):
        self.world.admin.put_table("main", "schema", name, location="s3://bucket/table")

    def remove(self, name):
        self.world.admin.remove_table("main", "schema", name)

    def list(self, catalog, page, token=None):
        return catalog.list_tables(token or self.token, "main", "schema", page)


class AllTables(Tables):
    def list(self, catalog, page, token=None):
        return catalog.list_all_tables(token or self.token, "main", page)


LISTERS = [Shares, Schemas, Tables, AllTables]
