"""`sluice doctor`: named checks, each passed, warned, failed or not run, with a remedy."""
