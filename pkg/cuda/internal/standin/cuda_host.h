// CUDA C++ for the host compiler: just enough of the language to run this project's kernels on a CPU.
// Every CUDA thread of a block is a fiber; a whole block runs on one OS thread, so __shared__ can be
// thread_local. Barriers and shuffles switch fibers (see runtime.cpp).
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstddef>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#ifndef __shared__
#define __shared__ static thread_local
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __ldg(p) (*(p))
#define __align__(n) __attribute__((aligned(n)))
#define DYN_SHARED(T, name) T *name = (T *)hc_cur->blk->dyn

struct hc_dim3 { unsigned x, y, z; };
struct hc_block { hc_dim3 bid, bdim, gdim; unsigned char *dyn; };
struct hc_thread { hc_dim3 tid; hc_block *blk; unsigned lane; };
struct hc_runner;
// An OS thread's own state. The last field is not zero, so that all of it lies in .tdata: what is left in the library's
// .tbss is the kernels' __shared__ memory, which a launch fills with NaNs first.
struct hc_tls_t { hc_thread *cur; hc_runner *running, *mine; void *context; int in_tdata; };
extern __thread hc_tls_t hc_tls;
#define hc_cur hc_tls.cur
#define threadIdx (hc_cur->tid)
#define blockIdx (hc_cur->blk->bid)
#define blockDim (hc_cur->blk->bdim)
#define gridDim (hc_cur->blk->gdim)
#define warpSize 32

void hc_syncthreads();
void hc_syncwarp(unsigned mask);
uint64_t hc_shuffle(unsigned mask, uint64_t bits, unsigned src);  // src: lane in the warp
inline void __syncthreads() { hc_syncthreads(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { hc_syncwarp(mask); }

template <class T> inline T hc_shfl(unsigned mask, T v, unsigned src) {
    static_assert(sizeof(T) <= 8, "shuffle of more than 8 bytes");
    uint64_t b = 0;
    memcpy(&b, &v, sizeof v);
    b = hc_shuffle(mask, b, src);
    memcpy(&v, &b, sizeof v);
    return v;
}
template <class T> inline T __shfl_sync(unsigned m, T v, int s, int w = 32) { return hc_shfl(m, v, (hc_cur->lane & ~(w - 1)) | (s & (w - 1))); }
template <class T> inline T __shfl_xor_sync(unsigned m, T v, int o, int = 32) { return hc_shfl(m, v, hc_cur->lane ^ o); }
template <class T> inline T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32) {
    unsigned l = hc_cur->lane, s = l & (w - 1);
    return hc_shfl(m, v, s >= d ? l - d : l);
}
template <class T> inline T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32) {
    unsigned l = hc_cur->lane, s = (l & (w - 1)) + d;
    return hc_shfl(m, v, s < (unsigned)w ? l + d : l);
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
inline float __uint_as_float(unsigned i) { float f; memcpy(&f, &i, 4); return f; }
inline unsigned __float_as_uint(float f) { unsigned i; memcpy(&i, &f, 4); return i; }
template <class T> inline T atomicAdd(T *p, T v) {  // blocks run on several OS threads
    T old, want;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do want = old + v; while (!__atomic_compare_exchange(p, &old, &want, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

struct float4 { float x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
struct uint2 { unsigned x, y; };
[[noreturn]] void hc_misaligned(const void *p);
template <class T> inline T ld(const T *p) {  // a wide load: on a GPU the address must be a multiple of its size
    if ((uintptr_t)p % sizeof(T)) hc_misaligned(p);
    return *p;
}
inline float half_float(unsigned short h) { _Float16 f; memcpy(&f, &h, 2); return (float)f; }
inline unsigned hc_half(float x) { _Float16 f = (_Float16)x; unsigned short h; memcpy(&h, &f, 2); return h; }
inline unsigned hc_bf16(float x) {
    unsigned u;
    memcpy(&u, &x, 4);
    return x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
inline unsigned pack_half(float lo, float hi) { return hc_half(lo) | hc_half(hi) << 16; }
inline unsigned pack_bf16(float lo, float hi) { return hc_bf16(lo) | hc_bf16(hi) << 16; }
// The warp's matrix product m16n8k16, with the fragments as the PTX manual lays them out.
void hc_mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], bool bf16);
inline void mma_half(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { hc_mma(d, a, b, false); }
inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { hc_mma(d, a, b, true); }

// Kernel table: name, parameter sizes, typed call through the driver's void *params[].
struct hc_kernel { const char *name; void (*call)(void **); const int *sizes; int nparams; };
template <auto F> struct hc_bind;
template <class... A, void (*F)(A...)> struct hc_bind<F> {
    static constexpr int sizes[sizeof...(A) + 1] = {(int)sizeof(A)..., 0};
    template <size_t... I> static void go(void **p, std::index_sequence<I...>) { F(*(A *)p[I]...); }
    static void call(void **p) { go(p, std::index_sequence_for<A...>{}); }
    static constexpr int n = sizeof...(A);
};
#define HC_KERNEL(f) {#f, hc_bind<f>::call, hc_bind<f>::sizes, hc_bind<f>::n},
extern const hc_kernel hc_kernels[];
extern const int hc_nkernels;

// Runs a grid; returns 0, 700 (illegal address), 716 (misaligned address) or 719 (launch failed), with a line on stderr.
int hc_run(const hc_kernel &k, void **params, hc_dim3 grid, hc_dim3 block, size_t dynshared);
