"""What must not go wrong when everything else does: processes, power, disks, databases, requests.

Each part is a module with a function that takes sizes and a seed and gives a dict of counts.
``python -m faults`` runs them; short runs of each are in tests/faults.
"""
