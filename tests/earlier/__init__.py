"""Runs that earlier code made, packed as it left them: this code still answers about them."""
