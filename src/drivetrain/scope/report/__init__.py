"""Reports: one format, one file. Each reads a Profile and writes; none computes what another would not see."""
