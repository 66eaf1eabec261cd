"""Who judges a pair that similarity has nominated, and who words one text for several."""
