"""The planners `ipopt` and `implicit`: multiple shooting with CasADi and IPOPT, as baselines."""
