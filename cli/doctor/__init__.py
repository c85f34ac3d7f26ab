"""`sluice doctor`: named checks, each passed, failed or not run, with what to do for each failure."""
