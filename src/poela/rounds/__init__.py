"""While a policy runs: watching it, look after look, at one error level."""
