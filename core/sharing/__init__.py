"""The work of each route: combines catalog, tables and storage into answers."""
