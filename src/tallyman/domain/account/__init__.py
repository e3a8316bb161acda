"""The fate of records: fates, the ledger and its proof, rejections."""
