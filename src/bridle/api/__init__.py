"""What travels over HTTP: the models of requests and responses."""
