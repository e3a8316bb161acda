"""Seals of runs: hashes, chain and signatures."""
