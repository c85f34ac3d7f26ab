"""`sluice demo`: shows a share from the provider's and the recipient's side in a minute."""
