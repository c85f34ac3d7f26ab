"""What the routes do: catalog, tables and storage joined into answers."""
