"""The world a test lives in: project folders, commands, databases and a collector."""
