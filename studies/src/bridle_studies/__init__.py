"""Studies of `bridle`: environments, the paper's experiments, and what goes beyond them.

A package beside the product; nothing in `bridle` imports it. Installed, it adds the commands
`bridle study`, `bridle data`, `bridle demo` and `bridle serve --demo`.
"""
