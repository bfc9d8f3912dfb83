"""Features, one package each: a pure model, a service, a table. They do not know each other."""
