"""Check: prove that runs, seals, versions and inputs are still what they were."""
