#undef COUNT_BITS
#undef FROM_LANE
#undef MOST_IN_WARP
#undef ALL_READ
#undef ROOT
#undef DIVIDE
#undef FOR_CHUNKS
