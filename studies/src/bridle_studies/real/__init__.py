"""The default agent on limits that people really set."""
