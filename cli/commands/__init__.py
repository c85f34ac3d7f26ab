"""The commands: one module for each noun, the functions that `cli.main` registers."""
