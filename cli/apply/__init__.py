"""`sluice apply`: reads a YAML file of shares, plans the changes of the catalog, and applies them."""
