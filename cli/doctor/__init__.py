"""`sluice doctor`: named checks of the account and its tables. A check that fails names a remedy."""
