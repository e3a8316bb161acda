"""What became of records: fates, the ledger and its proof, rejections."""
