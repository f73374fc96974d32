"""What the endpoints do, one file for each noun of the API."""
