// Memory of a world, `s`: shared, or a part of `scratch` where it needs more, and on a CPU. Before this text kernel.py puts
// `factor.h` and constants: ROOM (floats of shared memory for a world, 0 for none) and WORLDS of a block. Arguments:
// `scratch`, `stride` from one world to the next there, `thread`.
#if defined(__CUDA_ARCH__)
__shared__ float shared[ROOM > 0 ? ROOM * WORLDS : 1];
float* const s = ROOM > 0 ? shared + ROOM * (threadIdx.x / LANES) : scratch.data + stride * size_t(world);
#else
float* const s = scratch.data + stride * size_t(world);
#endif
