"""Why a choice came out as it did, and what moved it."""
