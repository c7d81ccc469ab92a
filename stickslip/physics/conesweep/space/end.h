#undef COUNT_BITS
#undef FROM_LANE
#undef ALL_READ
#undef ROOT
#undef DIVIDE
#undef FOR_CHUNKS
