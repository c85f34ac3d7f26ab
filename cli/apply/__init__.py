"""`sluice apply`: a YAML file of shares, the plan of changes it needs, and their execution."""
