"""`sluice demo`: a provider's and a recipient's side of one share, in a minute."""
