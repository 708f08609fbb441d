// The device side of the forward pass: one kernel or family of kernels for each stage.
//
// This file is compiled three ways: by NVRTC to kernels.ptx, which is embedded; by ptxas, to check that PTX for each
// chip; and by g++ with standin/cuda_host.h, to run on a CPU in tests. So: kernels are extern "C"; a parameter has
// at most 8 bytes and is no struct; wide loads go through ld() (which checks alignment in tests).
//
// Letters: T new tokens, S tokens seen, H heads, C hidden size, V vocabulary; n_kv key/value heads, KD and VD numbers
// of a key and a value. All activations are float32 and row-major.

#ifdef __CUDACC_RTC__
typedef unsigned long long uint64_t;
typedef long long int64_t;
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifdef __CUDACC__
template <class T> __device__ __forceinline__ T ld(const T* p) { return *p; }
__device__ __forceinline__ float half_float(unsigned short h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
// Two floats as 16-bit numbers in a word, lo in the lower half, rounded to nearest even.
__device__ __forceinline__ unsigned pack_half(float lo, float hi) {
    unsigned v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}
__device__ __forceinline__ unsigned pack_bf16(float lo, float hi) {
    unsigned v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}
// The warp's d [16, 8] += a [16, 16] · b [16, 8] on the tensor cores; who holds what is in the PTX manual, "matrix fragments
// for mma.m16n8k16": with g = lane/4 and t = lane%4, a[0] has row g and columns 2t, 2t+1, a[1] row g+8, a[2] and a[3] the same
// rows and columns 8 higher; b[0] has rows 2t, 2t+1 of column g, b[1] rows 8 higher; d[0], d[1] row g and columns 2t, 2t+1,
// d[2], d[3] row g+8.
__device__ __forceinline__ void mma_half(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef DYN_SHARED
#define DYN_SHARED(T, name) extern __shared__ T dyn_##name[]; T* name = dyn_##name
#endif

typedef unsigned short u16;
typedef const long long* blocks_t;

#define FULL 0xffffffffu
#define WARP 32

__device__ __forceinline__ float bf16_float(u16 h) { return __uint_as_float((unsigned)h << 16); }

// ---------------------------------------------------------------------------------------------- reductions

__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
    return v;
}

__device__ __forceinline__ float warp_max(float v) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, o));
    return v;
}

// Over the whole block; red has 32 floats, blockDim.x is a multiple of 32. The first barrier keeps a second use of
// red from overtaking the first.
__device__ __forceinline__ float block_sum(float v, float* red) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0) red[warp] = v;
    __syncthreads();
    return warp_sum(lane < warps ? red[lane] : 0.0f);
}

__device__ __forceinline__ float block_max(float v, float* red) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    v = warp_max(v);
    __syncthreads();
    if (lane == 0) red[warp] = v;
    __syncthreads();
    return warp_max(lane < warps ? red[lane] : -INFINITY);
}

// ---------------------------------------------------------------------------------------------- weights

// A weight matrix [N, ld] lies row after row, padded with zeros to ld columns, a multiple of 32. Q8 is int8 with a
// half-precision scale d for each 32: x = d·q. Q4 is nibbles, number e in byte e/2, low nibble first, with d and a minimum
// m: x = d·q + m, where no minima are given m = -8·d.
enum { F32, F16, BF16, Q8, Q4 };

struct Weight {
    const void* w;
    const u16* d;
    const u16* m;
    long long ld;
};

// The eight numbers of row r from column k on, k a multiple of 8.
template <int TYPE> __device__ __forceinline__ void unpack8(const Weight& a, long long r, int k, float (&out)[8]) {
    long long at = r * a.ld + k;
    if (TYPE == F32) {
        const float4* p = (const float4*)((const float*)a.w + at);
        float4 lo = ld(p), hi = ld(p + 1);
        out[0] = lo.x; out[1] = lo.y; out[2] = lo.z; out[3] = lo.w;
        out[4] = hi.x; out[5] = hi.y; out[6] = hi.z; out[7] = hi.w;
    } else if (TYPE == F16 || TYPE == BF16) {
        uint4 v = ld((const uint4*)((const u16*)a.w + at));
        unsigned word[4] = {v.x, v.y, v.z, v.w};
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            if (TYPE == F16) {
                out[2 * i] = half_float((u16)word[i]);
                out[2 * i + 1] = half_float((u16)(word[i] >> 16));
            } else {
                out[2 * i] = __uint_as_float(word[i] << 16);
                out[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
            }
        }
    } else if (TYPE == Q8) {
        uint2 v = ld((const uint2*)((const signed char*)a.w + at));
        float d = half_float(a.d[at >> 5]);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            out[i] = d * (float)(signed char)(v.x >> (8 * i));
            out[i + 4] = d * (float)(signed char)(v.y >> (8 * i));
        }
    } else {
        unsigned v = ld((const unsigned*)a.w + (at >> 3));
        float d = half_float(a.d[at >> 5]), m = a.m ? half_float(a.m[at >> 5]) : -8.0f * d;
        #pragma unroll
        for (int i = 0; i < 8; i++) out[i] = d * (float)(v >> (4 * i) & 15) + m;
    }
}

// Eight numbers of a row of activations from column k on; zeros from column n on.
__device__ __forceinline__ void load8(const float* x, int k, int n, float (&out)[8]) {
    if (k + 8 <= n && n % 4 == 0) {
        float4 lo = ld((const float4*)(x + k)), hi = ld((const float4*)(x + k) + 1);
        out[0] = lo.x; out[1] = lo.y; out[2] = lo.z; out[3] = lo.w;
        out[4] = hi.x; out[5] = hi.y; out[6] = hi.z; out[7] = hi.w;
        return;
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) out[i] = k + i < n ? x[k + i] : 0.0f;
}

// out[t] (+)= row index[t] of a table [N, C]: token embedding, learned positions. Block t is token t.
template <int TYPE> __device__ void embed_row(float* out, const Weight& a, const int* index, int C, int add) {
    long long r = index[blockIdx.x];
    float* y = out + (long long)blockIdx.x * C;
    for (int k = 8 * threadIdx.x; k < C; k += 8 * blockDim.x) {
        float v[8];
        unpack8<TYPE>(a, r, k, v);
        for (int i = 0; i < 8 && k + i < C; i++) y[k + i] = add ? y[k + i] + v[i] : v[i];
    }
}

#define EMBED(name, TYPE)                                                                                       \
    extern "C" __global__ void embed_##name(float* out, const void* w, const u16* d, const u16* m, long long ld, \
                                            const int* index, int C, int add) {                                  \
        Weight a = {w, d, m, ld};                                                                                \
        embed_row<TYPE>(out, a, index, C, add);                                                                  \
    }
EMBED(f32, F32) EMBED(f16, F16) EMBED(bf16, BF16) EMBED(q8, Q8) EMBED(q4, Q4)

// ---------------------------------------------------------------------------------------------- products

// A few tokens: y[t, n] = x[t]·w[n] + bias[n] for TN tokens at once. A warp takes two rows of the weights, which it reads
// once, 256 columns at a time; memory bandwidth is what counts.
#define GEMV_WARPS 4
#define GEMV_ROWS 2
#define GEMV_BLOCK (GEMV_WARPS * GEMV_ROWS)

template <int TYPE, int TN>
__device__ __forceinline__ void gemv_rows(float* y, const float* x, const Weight& a, const float* bias, int n0, int N, int K, int T) {
    int lane = threadIdx.x & 31;
    float acc[GEMV_ROWS][TN] = {};
    bool second = n0 + 1 < N;
    for (int k = 8 * lane; k < K; k += 8 * WARP) {
        float w[GEMV_ROWS][8];
        unpack8<TYPE>(a, n0, k, w[0]);
        unpack8<TYPE>(a, second ? n0 + 1 : n0, k, w[1]);
        #pragma unroll
        for (int t = 0; t < TN; t++) {
            if (t >= T) break;
            float v[8];
            load8(x + (long long)t * K, k, K, v);
            #pragma unroll
            for (int r = 0; r < GEMV_ROWS; r++)
                #pragma unroll
                for (int i = 0; i < 8; i++) acc[r][t] = fmaf(w[r][i], v[i], acc[r][t]);
        }
    }
    #pragma unroll
    for (int r = 0; r < GEMV_ROWS; r++)
        #pragma unroll
        for (int t = 0; t < TN; t++) {
            float v = warp_sum(acc[r][t]);
            if (lane == 0 && t < T && n0 + r < N) y[(long long)t * N + n0 + r] = v + (bias ? bias[n0 + r] : 0.0f);
        }
}

// Up to three layers of one input in one launch (Q, K and V; gate and up): blocks are dealt out to them in order.
#define GEMV(name, TYPE, TN)                                                                                            \
    extern "C" __global__ void __launch_bounds__(128) gemv_##name##_##TN(                                                \
        const float* x, int K, int T, long long ld,                                                                      \
        float* y0, const void* w0, const u16* d0, const u16* m0, const float* b0, int N0,                                \
        float* y1, const void* w1, const u16* d1, const u16* m1, const float* b1, int N1,                                \
        float* y2, const void* w2, const u16* d2, const u16* m2, const float* b2, int N2) {                              \
        int block = blockIdx.x, n = (N0 + GEMV_BLOCK - 1) / GEMV_BLOCK;                                                  \
        float* y = y0;                                                                                                   \
        const float* bias = b0;                                                                                          \
        Weight a = {w0, d0, m0, ld};                                                                                     \
        int N = N0;                                                                                                      \
        if (block >= n) {                                                                                                \
            block -= n;                                                                                                  \
            n = (N1 + GEMV_BLOCK - 1) / GEMV_BLOCK;                                                                      \
            y = y1; bias = b1; a.w = w1; a.d = d1; a.m = m1; N = N1;                                                     \
            if (block >= n) {                                                                                            \
                block -= n;                                                                                              \
                y = y2; bias = b2; a.w = w2; a.d = d2; a.m = m2; N = N2;                                                 \
            }                                                                                                            \
        }                                                                                                                \
        int n0 = block * GEMV_BLOCK + (threadIdx.x >> 5) * GEMV_ROWS;                                                    \
        if (n0 < N) gemv_rows<TYPE, TN>(y, x, a, bias, n0, N, K, T);                                                     \
    }
#define GEMVS(name, TYPE) GEMV(name, TYPE, 1) GEMV(name, TYPE, 2) GEMV(name, TYPE, 4) GEMV(name, TYPE, 8)
GEMVS(f32, F32) GEMVS(f16, F16) GEMVS(bf16, BF16) GEMVS(q8, Q8) GEMVS(q4, Q4)

// Many tokens: tiles of 64 tokens × 64 outputs, 32 columns at a time, in float32. in[i] is the row of x that belongs to
// row i, out[i] the row of y (null: i itself).
#define BM 64
#define BN 64
#define BK 32

template <int TYPE>
__device__ void gemm_tile(float* y, const float* x, const Weight& a, const float* bias, const int* in, int in_div, const int* out,
                          int m0, int n0, int M, int N, int K) {
    __shared__ __align__(16) float xs[BK][BM + 4];
    __shared__ __align__(16) float ws[BK][BN + 4];
    int tid = threadIdx.x, row = tid >> 2, k8 = (tid & 3) * 8, tx = tid & 15, ty = tid >> 4;
    const float* xr = nullptr;
    if (m0 + row < M) xr = x + (long long)(in ? in[m0 + row] / in_div : m0 + row) * K;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float xv[8] = {}, wv[8] = {};
        if (xr) load8(xr, k0 + k8, K, xv);
        if (n0 + row < N && k0 + k8 < a.ld) unpack8<TYPE>(a, n0 + row, k0 + k8, wv);
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            xs[k8 + i][row] = xv[i];
            ws[k8 + i][row] = wv[i];
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            float4 p = ld((const float4*)&xs[k][4 * ty]), q = ld((const float4*)&ws[k][4 * tx]);
            float pv[4] = {p.x, p.y, p.z, p.w}, qv[4] = {q.x, q.y, q.z, q.w};
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(pv[i], qv[j], acc[i][j]);
        }
    }
    for (int i = 0; i < 4; i++) {
        int r = m0 + 4 * ty + i;
        if (r >= M) break;
        float* yr = y + (long long)(out ? out[r] : r) * N;
        for (int j = 0; j < 4; j++) {
            int n = n0 + 4 * tx + j;
            if (n < N) yr[n] = acc[i][j] + (bias ? bias[n] : 0.0f);
        }
    }
}

#define GEMM(name, TYPE)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) gemm_##name(                                                      \
        float* y, const float* x, const void* w, const u16* d, const u16* m, long long ld, const float* bias, int M, int N, int K) { \
        Weight a = {w, d, m, ld};                                                                                        \
        gemm_tile<TYPE>(y, x, a, bias, nullptr, 1, nullptr, blockIdx.y * BM, blockIdx.x * BN, M, N, K);                  \
    }
GEMM(f32, F32) GEMM(q8, Q8) GEMM(q4, Q4)

// The same with 16-bit weights on the tensor cores: tiles of 128 tokens × 128 outputs, 32 columns at a time; eight warps, 2 × 4, have
// 64 × 32 outputs each. Activations become sums of TERMS 16-bit numbers: three BF16 or two F16 lose next to nothing (2^-24 and
// 2^-22 of a number); with one it is rounded, as PyTorch rounds them in such a model.
#define TILE_M 128
#define TILE_N 128
#define WORDS (BK / 2 + 4) // of a row of a tile; the padding makes the fragments' reads hit every bank once

template <int TYPE> __device__ __forceinline__ unsigned pack16(float lo, float hi) { return TYPE == F16 ? pack_half(lo, hi) : pack_bf16(lo, hi); }
template <int TYPE> __device__ __forceinline__ float lower(unsigned v) { return TYPE == F16 ? half_float((u16)v) : bf16_float((u16)v); }
template <int TYPE> __device__ __forceinline__ float upper(unsigned v) { return TYPE == F16 ? half_float((u16)(v >> 16)) : bf16_float((u16)(v >> 16)); }

template <int TYPE> __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if (TYPE == F16) mma_half(d, a, b);
    else mma_bf16(d, a, b);
}

template <int TYPE, int TERMS>
__device__ __forceinline__ void tensor_tile(float* y, const float* x, const void* w, long long ld_w, const float* bias, const int* in, int in_div, const int* out,
                            int m0, int n0, int M, int N, int K) {
    __shared__ __align__(16) unsigned xs[TERMS][TILE_M][WORDS];
    __shared__ __align__(16) unsigned ws[TILE_N][WORDS];
    int tid = threadIdx.x, row = tid >> 1, k16 = (tid & 1) * 16, lane = tid & 31, warp = tid >> 5;
    int g = lane >> 2, t = lane & 3, wm = (warp >> 2) * 64, wn = (warp & 3) * 32;
    const float* xr = nullptr;
    if (m0 + row < M) xr = x + (long long)(in ? in[m0 + row] / in_div : m0 + row) * K;
    const u16* wr = n0 + row < N ? (const u16*)w + (long long)(n0 + row) * ld_w + k16 : nullptr;
    float acc[4][4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float xv[2][8] = {};
        uint4 wv[2] = {};
        if (xr) {
            load8(xr, k0 + k16, K, xv[0]);
            load8(xr, k0 + k16 + 8, K, xv[1]);
        }
        if (wr) {
            wv[0] = ld((const uint4*)(wr + k0));
            wv[1] = ld((const uint4*)(wr + k0) + 1);
        }
        __syncthreads();
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                float a = xv[h][2 * i], b = xv[h][2 * i + 1];
                #pragma unroll
                for (int e = 0; e < TERMS; e++) {
                    unsigned v = pack16<TYPE>(a, b);
                    xs[e][row][k16 / 2 + 4 * h + i] = v;
                    a -= lower<TYPE>(v);
                    b -= upper<TYPE>(v);
                }
            }
            *(uint4*)&ws[row][k16 / 2 + 4 * h] = wv[h];
        }
        __syncthreads();
        #pragma unroll
        for (int s = 0; s < BK / 2; s += 8) {
            unsigned b[4][2];
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                b[j][0] = ws[wn + 8 * j + g][s + t];
                b[j][1] = ws[wn + 8 * j + g][s + t + 4];
            }
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = wm + 16 * i + g;
                unsigned a[TERMS][4];
                #pragma unroll
                for (int e = 0; e < TERMS; e++) {
                    a[e][0] = xs[e][r][s + t];
                    a[e][1] = xs[e][r + 8][s + t];
                    a[e][2] = xs[e][r][s + t + 4];
                    a[e][3] = xs[e][r + 8][s + t + 4];
                }
                #pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (TERMS == 1) {
                        mma<TYPE>(acc[i][j], a[0], b[j]);
                        continue;
                    }
                    // Tensor cores cut off what they add to a larger sum, so that they only add 16 columns, smallest terms first.
                    float d[4] = {};
                    #pragma unroll
                    for (int e = TERMS - 1; e >= 0; e--) mma<TYPE>(d, a[e], b[j]);
                    #pragma unroll
                    for (int q = 0; q < 4; q++) acc[i][j][q] += d[q];
                }
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = m0 + wm + 16 * i + 8 * h + g;
            if (r >= M) continue;
            float* yr = y + (long long)(out ? out[r] : r) * N;
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                int n = n0 + wn + 8 * j + 2 * t;
                if (n < N) yr[n] = acc[i][j][2 * h] + (bias ? bias[n] : 0.0f);
                if (n + 1 < N) yr[n + 1] = acc[i][j][2 * h + 1] + (bias ? bias[n + 1] : 0.0f);
            }
        }
}

#define TENSOR(name, TYPE, TERMS)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) tensor_##name##_##TERMS(                                           \
        float* y, const float* x, const void* w, long long ld, const float* bias, int M, int N, int K) {                 \
        tensor_tile<TYPE, TERMS>(y, x, w, ld, bias, nullptr, 1, nullptr, blockIdx.y * TILE_M, blockIdx.x * TILE_N, M, N, K);     \
    }
TENSOR(f16, F16, 1) TENSOR(f16, F16, 2) TENSOR(bf16, BF16, 1) TENSOR(bf16, BF16, 3)

// ---------------------------------------------------------------------------------------------- element by element

#define FOR_EACH(i, n) \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)

extern "C" __global__ void add(float* x, const float* y, long long n) { FOR_EACH(i, n) x[i] += y[i]; }

extern "C" __global__ void scale(float* x, float a, long long n) { FOR_EACH(i, n) x[i] *= a; }

extern "C" __global__ void clamp(float* x, float limit, long long n) {
    FOR_EACH(i, n) x[i] = fmaxf(-limit, fminf(limit, x[i]));
}

extern "C" __global__ void softcap(float* x, float cap, long long n) { FOR_EACH(i, n) x[i] = cap * tanhf(x[i] / cap); }

enum { SILU, GELU, GELU_TANH, RELU };

__device__ __forceinline__ float activate(int act, float x) {
    switch (act) {
    case SILU: return x / (1.0f + expf(-x));
    case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    }
    return fmaxf(x, 0.0f);
}

// x = act(x), times y where there is one: the middle of an MLP.
extern "C" __global__ void activation(float* x, const float* y, int act, long long n) {
    FOR_EACH(i, n) {
        float v = activate(act, x[i]);
        x[i] = y ? v * y[i] : v;
    }
}

// a [T, n], b [T, m] → [T, n+m]
extern "C" __global__ void concat(float* out, const float* a, const float* b, int n, int m, long long total) {
    FOR_EACH(i, total) {
        long long t = i / (n + m);
        int j = (int)(i - t * (n + m));
        out[i] = j < n ? a[t * n + j] : b[t * m + j - n];
    }
}

// out[i] = x[rows[i]]
extern "C" __global__ void gather(float* out, const float* x, const int* rows, int C) {
    long long r = rows[blockIdx.x];
    for (int k = threadIdx.x; k < C; k += blockDim.x) out[(long long)blockIdx.x * C + k] = x[r * C + k];
}

// ---------------------------------------------------------------------------------------------- norms, rotation

// LayerNorm (center) or RMSNorm of each row; w and b may be null. One block a row; out may be x.
extern "C" __global__ void norm(float* out, const float* x, const float* w, const float* b, int C, float eps, int center) {
    __shared__ float red[32];
    const float* row = x + (long long)blockIdx.x * C;
    float* y = out + (long long)blockIdx.x * C;
    float mean = 0.0f;
    if (center) {
        float s = 0.0f;
        for (int i = threadIdx.x; i < C; i += blockDim.x) s += row[i];
        mean = block_sum(s, red) / C;
    }
    float s = 0.0f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float v = row[i] - mean;
        s = fmaf(v, v, s);
    }
    float inv = 1.0f / sqrtf(block_sum(s, red) / C + eps);
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float v = (row[i] - mean) * inv;
        if (w) v *= w[i];
        if (b) v += b[i];
        y[i] = v;
    }
}

// Rotates pairs of x [T, H, D] in place, of each head the numbers from offset on: (i, i+half), or (2i, 2i+1) where
// interleaved. cos and sin [rows, half]; at[t] is token t's row (null: t itself).
extern "C" __global__ void rope(float* x, const float* cos, const float* sin, const int* at, int H, int D, int offset, int half, int interleaved, long long pairs) {
    FOR_EACH(i, pairs) {
        int p = (int)(i % half);
        long long th = i / half, t = th / H, r = (at ? at[t] : t) * half + p;
        float* v = x + th * D + offset;
        int a = interleaved ? 2 * p : p, b = interleaved ? 2 * p + 1 : p + half;
        float u = v[a], w = v[b], c = cos[r], s = sin[r];
        v[a] = u * c - w * s;
        v[b] = w * c + u * s;
    }
}

// ---------------------------------------------------------------------------------------------- attention

// A sequence of the batch, eight ints:
enum { ROW, NEW, START, TABLE, SIZE, LAYER, SEQ = 8 };
// its first row and number of rows, the position of the first; where its blocks begin in the list of block addresses
// (-1: no cache, the keys are the new ones), tokens a block, and what to add to the layer's index in its group of layers.
// A block holds, for each layer, the keys [n_kv, size, KD] and then the values [n_kv, size, VD].

__device__ __forceinline__ float* key_at(const int* s, const float* fresh, blocks_t blocks, int layer, int kv, int pos, int KVH, int KD, int VD) {
    if (s[TABLE] < 0) return (float*)fresh + ((long long)(s[ROW] + pos) * KVH + kv) * KD;
    int size = s[SIZE], b = pos / size;
    long long base = (long long)(layer + s[LAYER]) * KVH * size * (KD + VD);
    return (float*)blocks[s[TABLE] + b] + base + ((long long)kv * size + pos - b * size) * KD;
}

__device__ __forceinline__ float* value_at(const int* s, const float* fresh, blocks_t blocks, int layer, int kv, int pos, int KVH, int KD, int VD) {
    if (s[TABLE] < 0) return (float*)fresh + ((long long)(s[ROW] + pos) * KVH + kv) * VD;
    int size = s[SIZE], b = pos / size;
    long long base = (long long)(layer + s[LAYER]) * KVH * size * (KD + VD) + (long long)KVH * size * KD;
    return (float*)blocks[s[TABLE] + b] + base + ((long long)kv * size + pos - b * size) * VD;
}

// Appends the new tokens' keys and values to the caches. Block (t, kv); seq[t] is the sequence of row t, pos[t] its position.
extern "C" __global__ void store(const float* k, const float* v, blocks_t blocks, const int* seqs, const int* seq, const int* pos,
                                 int layer, int KVH, int KD, int VD) {
    int t = blockIdx.x, kv = blockIdx.y;
    const int* s = seqs + seq[t] * SEQ;
    if (s[TABLE] < 0) return;
    float* to = key_at(s, nullptr, blocks, layer, kv, pos[t], KVH, KD, VD);
    const float* from = k + ((long long)t * KVH + kv) * KD;
    for (int i = threadIdx.x; i < KD; i += blockDim.x) to[i] = from[i];
    if (!v) return;
    to = value_at(s, nullptr, blocks, layer, kv, pos[t], KVH, KD, VD);
    from = v + ((long long)t * KVH + kv) * VD;
    for (int i = threadIdx.x; i < VD; i += blockDim.x) to[i] = from[i];
}

__device__ __forceinline__ float cap_score(float s, float cap) { return cap > 0.0f ? cap * tanhf(s / cap) : s; }

// Flash attention. A block takes ROWS queries of one sequence that share key/value head kv (row r is token r/G, head
// kv·G + r%G, with G = H/n_kv), and goes through the keys in tiles of 32 with the running softmax
//
//	m' = max(m, max(s)),  l' = l·e^(m-m') + Σ e^(s-m'),  o' = o·e^(m-m') + e^(s-m')·V
//
// Keys are shared out to the blocks of one z: a part writes (m, l, o) to part, and flash_join puts them together.
// 128 threads: TX neighbouring threads share RM rows. NV is how many times 64 numbers a value has at most, NQ a key.
#define TILE 32
#define CHUNK 64
#define PAD (CHUNK + 4)

__device__ __forceinline__ void load_chunk(float (*dst)[PAD], const float* const* from, int c, int dim, int keys) {
    for (int i = threadIdx.x; i < TILE * CHUNK / 4; i += 128) {
        int key = i / (CHUNK / 4), j = i % (CHUNK / 4) * 4, d = c * CHUNK + j;
        float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
        if (key < keys) {
            const float* p = from[key] + d;
            if (dim % 4 == 0) {
                if (d < dim) v = ld((const float4*)p);
            } else {
                if (d < dim) v.x = p[0];
                if (d + 1 < dim) v.y = p[1];
                if (d + 2 < dim) v.z = p[2];
                if (d + 3 < dim) v.w = p[3];
            }
        }
        *(float4*)&dst[key][j] = v;
    }
}

template <int ROWS, int NV, int NQ>
__device__ __forceinline__ void flash(float* out, const float* q, const float* k, const float* v, blocks_t blocks, const int* seqs, const int* tiles,
                      int layer, int H, int KVH, int KD, int VD, int cacheVD, float scale, int window, float cap, const float* sinks, float* part) {
    constexpr int RM = ROWS / 16 > 0 ? ROWS / 16 : 1, TX = 128 * RM / ROWS, KN = TILE / TX, CN = CHUNK / TX;
    __shared__ __align__(16) float qs[ROWS][NQ * CHUNK + 4];
    __shared__ __align__(16) float kv_tile[TILE][PAD];
    __shared__ float ps[ROWS][TILE + 1];
    __shared__ const float* kp[TILE];
    __shared__ const float* vp[TILE];

    int tid = threadIdx.x, tx = tid % TX, r0 = tid / TX * RM;
    int kv = blockIdx.y, G = H / KVH;
    const int* s = seqs + tiles[2 * blockIdx.x] * SEQ;
    int first = tiles[2 * blockIdx.x + 1], rows = min(ROWS, s[NEW] * G - first);
    int lo = s[START] + first / G, hi = s[START] + (first + rows - 1) / G + 1; // tokens of these rows
    int from = window > 0 ? max(0, lo - window + 1) : 0;
    int k0 = from + (int)((long long)(hi - from) * blockIdx.z / gridDim.z), k1 = from + (int)((long long)(hi - from) * (blockIdx.z + 1) / gridDim.z);

    for (int i = tid; i < ROWS * NQ * CHUNK; i += 128) {
        int r = i / (NQ * CHUNK), d = i % (NQ * CHUNK);
        float x = 0.0f;
        if (r < rows && d < KD) {
            int t = s[ROW] + (first + r) / G, h = kv * G + (first + r) % G;
            x = q[((long long)t * H + h) * KD + d] * scale;
        }
        qs[r][d] = x;
    }
    float m[RM], l[RM], acc[NV][RM][CN] = {};
    int pos[RM];
    for (int i = 0; i < RM; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
        pos[i] = r0 + i < rows ? s[START] + (first + r0 + i) / G : -1;
    }

    for (int kt = k0; kt < k1; kt += TILE) {
        int keys = min(TILE, k1 - kt);
        if (tid < keys) { // the last barrier of the tile before came after the last look at these
            kp[tid] = key_at(s, k, blocks, layer, kv, kt + tid, KVH, KD, cacheVD);
            vp[tid] = cacheVD ? value_at(s, v, blocks, layer, kv, kt + tid, KVH, KD, VD) : kp[tid];
        }
        float sc[RM][KN] = {};
        #pragma unroll
        for (int c = 0; c < NQ; c++) {
            if (c * CHUNK >= KD) break;
            __syncthreads();
            load_chunk(kv_tile, kp, c, KD, keys);
            __syncthreads();
            #pragma unroll 4
            for (int d = 0; d < CHUNK; d += 4) {
                float4 a[RM];
                #pragma unroll
                for (int i = 0; i < RM; i++) a[i] = ld((const float4*)&qs[r0 + i][c * CHUNK + d]);
                #pragma unroll
                for (int j = 0; j < KN; j++) {
                    float4 b = ld((const float4*)&kv_tile[tx + j * TX][d]);
                    #pragma unroll
                    for (int i = 0; i < RM; i++)
                        sc[i][j] = fmaf(a[i].x, b.x, fmaf(a[i].y, b.y, fmaf(a[i].z, b.z, fmaf(a[i].w, b.w, sc[i][j]))));
                }
            }
        }
        #pragma unroll
        for (int i = 0; i < RM; i++) {
            float top = m[i];
            #pragma unroll
            for (int j = 0; j < KN; j++) {
                int key = kt + tx + j * TX;
                bool seen = key < k1 && key <= pos[i] && (window == 0 || key > pos[i] - window);
                sc[i][j] = seen ? cap_score(sc[i][j], cap) : -INFINITY;
                top = fmaxf(top, sc[i][j]);
            }
            #pragma unroll
            for (int o = TX / 2; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(FULL, top, o));
            float safe = top == -INFINITY ? 0.0f : top, shrink = expf(m[i] - safe), sum = 0.0f;
            #pragma unroll
            for (int j = 0; j < KN; j++) {
                float e = expf(sc[i][j] - safe);
                ps[r0 + i][tx + j * TX] = e;
                sum += e;
            }
            #pragma unroll
            for (int o = TX / 2; o > 0; o >>= 1) sum += __shfl_xor_sync(FULL, sum, o);
            l[i] = l[i] * shrink + sum;
            m[i] = top;
            #pragma unroll
            for (int c = 0; c < NV; c++)
                #pragma unroll
                for (int j = 0; j < CN; j++) acc[c][i][j] *= shrink;
        }
        #pragma unroll
        for (int c = 0; c < NV; c++) {
            if (c * CHUNK >= VD) break;
            __syncthreads();
            load_chunk(kv_tile, vp, c, VD, keys);
            __syncthreads();
            for (int key = 0; key < keys; key++) {
                #pragma unroll
                for (int j = 0; j < CN; j += 4) {
                    float4 b = ld((const float4*)&kv_tile[key][j * TX + 4 * tx]);
                    #pragma unroll
                    for (int i = 0; i < RM; i++) {
                        float p = ps[r0 + i][key];
                        acc[c][i][j] = fmaf(p, b.x, acc[c][i][j]);
                        acc[c][i][j + 1] = fmaf(p, b.y, acc[c][i][j + 1]);
                        acc[c][i][j + 2] = fmaf(p, b.z, acc[c][i][j + 2]);
                        acc[c][i][j + 3] = fmaf(p, b.w, acc[c][i][j + 3]);
                    }
                }
            }
        }
    }

    for (int i = 0; i < RM; i++) {
        int r = first + r0 + i, h = kv * G + r % G;
        if (r0 + i >= rows) break;
        float* to;
        float by = 1.0f;
        if (part) {
            to = part + ((((long long)blockIdx.x * KVH + kv) * gridDim.z + blockIdx.z) * ROWS + r0 + i) * (VD + 2);
            if (tx == 0) {
                to[0] = m[i];
                to[1] = l[i];
            }
            to += 2;
        } else {
            float sum = l[i] + (sinks ? expf(sinks[h] - m[i]) : 0.0f);
            by = 1.0f / sum;
            to = out + ((long long)(s[ROW] + r / G) * H + h) * VD;
        }
        #pragma unroll
        for (int c = 0; c < NV; c++)
            #pragma unroll
            for (int j = 0; j < CN; j++) {
                int d = c * CHUNK + j / 4 * 4 * TX + 4 * tx + j % 4;
                if (d < VD) to[d] = acc[c][i][j] * by;
            }
    }
}

#define FLASH(ROWS, NV, NQ)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(128) flash_##ROWS##_##NV(                                                      \
        float* out, const float* q, const float* k, const float* v, blocks_t blocks, const int* seqs, const int* tiles, int layer, int H, int KVH, \
        int KD, int VD, int cacheVD, float scale, int window, float cap, const float* sinks, float* part) {                     \
        flash<ROWS, NV, NQ>(out, q, k, v, blocks, seqs, tiles, layer, H, KVH, KD, VD, cacheVD, scale, window, cap, sinks, part); \
    }
FLASH(8, 1, 1) FLASH(8, 2, 2) FLASH(8, 4, 4) FLASH(8, 8, 9) FLASH(32, 1, 1) FLASH(32, 2, 2) FLASH(32, 4, 4)

// Puts the parts of a split together. Block (tile, kv).
extern "C" __global__ void flash_join(float* out, const float* part, const int* seqs, const int* tiles, int rows_max, int splits,
                                      int H, int KVH, int VD, const float* sinks) {
    int kv = blockIdx.y, G = H / KVH;
    const int* s = seqs + tiles[2 * blockIdx.x] * SEQ;
    int first = tiles[2 * blockIdx.x + 1], rows = min(rows_max, s[NEW] * G - first);
    const float* mine = part + ((long long)blockIdx.x * KVH + kv) * splits * rows_max * (VD + 2);
    for (int r = 0; r < rows; r++) {
        int h = kv * G + (first + r) % G;
        const float* p = mine + (long long)r * (VD + 2);
        long long step = (long long)rows_max * (VD + 2);
        float m = -INFINITY, l = 0.0f;
        for (int z = 0; z < splits; z++) m = fmaxf(m, p[z * step]);
        for (int z = 0; z < splits; z++) l += p[z * step + 1] * expf(p[z * step] - m);
        if (sinks) l += expf(sinks[h] - m);
        float* to = out + ((long long)(s[ROW] + (first + r) / G) * H + h) * VD;
        for (int d = threadIdx.x; d < VD; d += blockDim.x) {
            float a = 0.0f;
            for (int z = 0; z < splits; z++) a = fmaf(p[z * step + 2 + d], expf(p[z * step] - m), a);
            to[d] = a / l;
        }
    }
}

// The weights themselves, for heat maps: w [H, T, S] of one sequence. Block (t, h).
extern "C" __global__ void attention_weights(float* w, const float* q, const float* k, blocks_t blocks, const int* s, int layer, int H, int KVH,
                                             int KD, int VD, float scale, int window, float cap, const float* sinks) {
    __shared__ float red[32];
    int t = blockIdx.x, h = blockIdx.y, kv = h / (H / KVH), T = s[NEW], S = s[START] + T, pos = s[START] + t;
    float* row = w + ((long long)h * T + t) * S;
    const float* x = q + ((long long)(s[ROW] + t) * H + h) * KD;
    float m = -INFINITY;
    for (int j = threadIdx.x; j < S; j += blockDim.x) {
        float d = 0.0f;
        if (j > pos || (window && j <= pos - window)) {
            row[j] = 0.0f;
            continue;
        }
        const float* y = key_at(s, k, blocks, layer, kv, j, KVH, KD, VD);
        for (int i = 0; i < KD; i++) d = fmaf(x[i] * scale, y[i], d);
        d = cap_score(d, cap);
        row[j] = d;
        m = fmaxf(m, d);
    }
    m = block_max(m, red);
    if (sinks) m = fmaxf(m, sinks[h]);
    float sum = 0.0f;
    int from = window ? max(0, pos - window + 1) : 0;
    for (int j = threadIdx.x; j <= pos; j += blockDim.x) {
        if (j < from) continue;
        float e = expf(row[j] - m);
        row[j] = e;
        sum += e;
    }
    sum = block_sum(sum, red);
    if (sinks) sum += expf(sinks[h] - m);
    for (int j = threadIdx.x; j <= pos; j += blockDim.x)
        if (j >= from) row[j] /= sum;
}

// Latent attention, the queries' side: q [T, H, Nope+Rope], W [H·(Nope+VD), Rank] → out [T, H, Rank+Rope]. Block (t, h).
extern "C" __global__ void absorb(float* out, const float* q, const float* W, int H, int Nope, int Rope, int Rank, int VD) {
    int t = blockIdx.x, h = blockIdx.y;
    const float* x = q + ((long long)t * H + h) * (Nope + Rope);
    float* y = out + ((long long)t * H + h) * (Rank + Rope);
    const float* up = W + (long long)h * (Nope + VD) * Rank;
    for (int r = threadIdx.x; r < Rank + Rope; r += blockDim.x) {
        float a = 0.0f;
        if (r < Rank)
            for (int i = 0; i < Nope; i++) a = fmaf(x[i], up[(long long)i * Rank + r], a);
        else
            a = x[Nope + r - Rank];
        y[r] = a;
    }
}

// The values' side: x [T, H, Rank] → out [T, H, VD]. Block (t, h), a warp for each output.
extern "C" __global__ void expand(float* out, const float* x, const float* W, int H, int Nope, int Rank, int VD) {
    int t = blockIdx.x, h = blockIdx.y, lane = threadIdx.x & 31;
    const float* c = x + ((long long)t * H + h) * Rank;
    const float* up = W + ((long long)h * (Nope + VD) + Nope) * Rank;
    for (int d = threadIdx.x >> 5; d < VD; d += blockDim.x >> 5) {
        float a = 0.0f;
        for (int i = lane; i < Rank; i += WARP) a = fmaf(c[i], up[(long long)d * Rank + i], a);
        a = warp_sum(a);
        if (lane == 0) out[((long long)t * H + h) * VD + d] = a;
    }
}

// ---------------------------------------------------------------------------------------------- mixture of experts

// A warp for each token: scores by softmax or sigmoid, the best groups, the top k, their weights. Of equal scores the
// lower expert wins. pick, weight [T, k]. Dynamic shared memory: 2·E + groups floats.
__device__ __forceinline__ void best_of(float& v, int& at) {
    for (int o = 16; o > 0; o >>= 1) {
        float w = __shfl_xor_sync(FULL, v, o);
        int b = __shfl_xor_sync(FULL, at, o);
        if (w > v || (w == v && b < at)) {
            v = w;
            at = b;
        }
    }
}

extern "C" __global__ void route(int* pick, float* weight, const float* logits, const float* correction, int E, int k, int sigmoid,
                                 int normalize, float routed, int groups, int top_groups) {
    DYN_SHARED(float, score);
    float* choice = score + E;
    float* group = choice + E;
    int t = blockIdx.x, lane = threadIdx.x;
    const float* x = logits + (long long)t * E;
    float m = -INFINITY, sum = 0.0f;
    for (int e = lane; e < E; e += WARP) m = fmaxf(m, x[e]);
    m = warp_max(m);
    for (int e = lane; e < E; e += WARP) sum += expf(x[e] - m);
    sum = warp_sum(sum);
    for (int e = lane; e < E; e += WARP) {
        float s = sigmoid ? 1.0f / (1.0f + expf(-x[e])) : expf(x[e] - m) / sum;
        score[e] = s;
        choice[e] = correction ? s + correction[e] : s;
    }
    __syncwarp();
    if (groups > 1) {
        int size = E / groups;
        for (int g = lane; g < groups; g += WARP) {
            float a = -INFINITY, b = -INFINITY;
            for (int e = g * size; e < (g + 1) * size; e++) {
                float c = choice[e];
                if (c > a) {
                    b = a;
                    a = c;
                } else if (c > b)
                    b = c;
            }
            group[g] = size == 1 ? a : a + b;
        }
        __syncwarp();
        for (int e = lane; e < E; e += WARP) {
            int g = e / size, better = 0;
            for (int o = 0; o < groups; o++) better += group[o] > group[g] || (group[o] == group[g] && o < g);
            if (better >= top_groups) choice[e] = -INFINITY;
        }
        __syncwarp();
    }
    float total = 0.0f;
    for (int i = 0; i < k; i++) {
        float v = -INFINITY;
        int at = E;
        for (int e = lane; e < E; e += WARP)
            if (choice[e] > v) {
                v = choice[e];
                at = e;
            }
        best_of(v, at);
        if (at == E) at = 0; // NaN logits
        total += score[at];
        if (lane == 0) {
            pick[(long long)t * k + i] = at;
            choice[at] = -INFINITY;
        }
        __syncwarp();
    }
    for (int i = lane; i < k; i += WARP) {
        float w = score[pick[(long long)t * k + i]];
        if (normalize) w /= total;
        weight[(long long)t * k + i] = routed != 0.0f ? w * routed : w;
    }
}

// Sorts the T·k picks by expert: order holds the picks' numbers, those of expert e from first[e] to first[e+1]. One block;
// dynamic shared memory: E ints.
extern "C" __global__ void sort_picks(int* order, int* first, const int* pick, int n, int E) {
    DYN_SHARED(int, count);
    for (int e = threadIdx.x; e < E; e += blockDim.x) {
        int c = 0;
        for (int i = 0; i < n; i++) c += pick[i] == e;
        count[e] = c;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < E; e += blockDim.x) {
        int at = 0;
        for (int o = 0; o < e; o++) at += count[o];
        first[e] = at;
        if (e == E - 1) first[E] = at + count[e];
        for (int i = 0; i < n; i++)
            if (pick[i] == e) order[at++] = i;
    }
}

// y[p] = x[p / div]·w[pick[p]] for every pick p: few tokens. Block (rows of the weights, p). table [3, E]: addresses of the experts' w, d and m.
#define MOE_GEMV(name, TYPE)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(128) moe_gemv_##name(float* y, const float* x, blocks_t table, const int* pick, \
                                                                      int div, int E, long long ld, int N, int K) {              \
        int p = blockIdx.y, e = pick[p], n0 = blockIdx.x * GEMV_BLOCK + (threadIdx.x >> 5) * GEMV_ROWS;                          \
        Weight a = {(const void*)table[e], (const u16*)table[E + e], (const u16*)table[2 * E + e], ld};                          \
        if (n0 < N) gemv_rows<TYPE, 1>(y + (long long)p * N, x + (long long)(p / div) * K, a, nullptr, n0, N, K, 1);             \
    }
MOE_GEMV(f32, F32) MOE_GEMV(f16, F16) MOE_GEMV(bf16, BF16) MOE_GEMV(q8, Q8) MOE_GEMV(q4, Q4)

// The same for many tokens, expert by expert. Block (columns, rows, expert).
#define MOE_GEMM(name, TYPE)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) moe_gemm_##name(float* y, const float* x, blocks_t table, const int* order, \
                                                                      const int* first, int div, int E, long long ld, int N, int K) { \
        int e = blockIdx.z, from = first[e], M = first[e + 1] - from, m0 = blockIdx.y * BM;                                      \
        if (m0 >= M) return;                                                                                                     \
        Weight a = {(const void*)table[e], (const u16*)table[E + e], (const u16*)table[2 * E + e], ld};                          \
        gemm_tile<TYPE>(y, x, a, nullptr, order + from, div, order + from, m0, blockIdx.x * BN, M, N, K);                        \
    }
MOE_GEMM(f32, F32) MOE_GEMM(q8, Q8) MOE_GEMM(q4, Q4)

#define MOE_TENSOR(name, TYPE, TERMS)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256) moe_tensor_##name##_##TERMS(                                                \
        float* y, const float* x, blocks_t table, const int* order, const int* first, int div, long long ld, int N, int K) {      \
        int e = blockIdx.z, from = first[e], M = first[e + 1] - from, m0 = blockIdx.y * TILE_M;                                       \
        if (m0 >= M) return;                                                                                                      \
        tensor_tile<TYPE, TERMS>(y, x, (const void*)table[e], ld, nullptr, order + from, div, order + from, m0, blockIdx.x * TILE_N, M, N, K); \
    }
MOE_TENSOR(f16, F16, 1) MOE_TENSOR(f16, F16, 2) MOE_TENSOR(bf16, BF16, 1) MOE_TENSOR(bf16, BF16, 3)

// out[t] (+)= Σ weight[t, i]·y[t·k + i]. Block t.
extern "C" __global__ void moe_sum(float* out, const float* y, const float* weight, int k, int C, int add) {
    long long t = blockIdx.x;
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float a = add ? out[t * C + c] : 0.0f;
        for (int i = 0; i < k; i++) a = fmaf(weight[t * k + i], y[(t * k + i) * C + c], a);
        out[t * C + c] = a;
    }
}

// ---------------------------------------------------------------------------------------------- softmax

// Softmax of each row, in place. One block a row.
extern "C" __global__ void softmax(float* x, int C) {
    __shared__ float red[32];
    float* row = x + (long long)blockIdx.x * C;
    float m = -INFINITY, s = 0.0f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) m = fmaxf(m, row[i]);
    m = block_max(m, red);
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float e = expf(row[i] - m);
        row[i] = e;
        s += e;
    }
    s = block_sum(s, red);
    for (int i = threadIdx.x; i < C; i += blockDim.x) row[i] /= s;
}

// ---------------------------------------------------------------------------------------------- sampling

// The order of floats as an order of unsigned integers.
__device__ __forceinline__ unsigned order_key(float x) {
    unsigned u = __float_as_uint(x);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

// A token's probability before division by the sum, as an integer: sums of integers don't depend on the order of the
// threads. m is the largest logit.
__device__ __forceinline__ uint64_t mass(float x, float m, float T) {
    return (uint64_t)((x == m ? 1.0f : expf((x - m) / T)) * 1099511627776.0f);
}

// The largest key for which the tokens of that key and above it have a mass (count: a number) of want; above is what those
// over it have. Keys up to skip don't take part. Eight bits at a time, from the top.
__device__ unsigned select_key(const float* x, int V, float m, float T, bool count, unsigned skip, uint64_t want, uint64_t& above) {
    __shared__ uint64_t bins[256];
    __shared__ uint64_t sum;
    __shared__ unsigned best;
    unsigned prefix = 0;
    above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < V; i += blockDim.x) {
            unsigned key = order_key(x[i]);
            if (key <= skip || (shift < 24 && key >> (shift + 8) != prefix)) continue;
            uint64_t w = count ? 1 : mass(x[i], m, T);
            if (w) atomicAdd(&bins[key >> shift & 255], w);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int b = 255;
            while (b > 0 && above + bins[b] < want) above += bins[b--];
            best = prefix << 8 | b;
            sum = above;
        }
        __syncthreads();
        prefix = best;
        above = sum;
    }
    return prefix;
}

// Σ of v over the threads before this one; total over all. red has 32 numbers.
__device__ __forceinline__ uint64_t scan(uint64_t v, uint64_t* red, uint64_t& total) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    uint64_t s = v;
    for (int o = 1; o < WARP; o <<= 1) {
        uint64_t w = __shfl_up_sync(FULL, s, o);
        if (lane >= o) s += w;
    }
    __syncthreads();
    if (lane == 31) red[warp] = s;
    __syncthreads();
    total = 0;
    uint64_t before = 0;
    for (int w = 0; w < warps; w++) {
        if (w == warp) before = total;
        total += red[w];
    }
    return before + s - v;
}

// Draws a token from softmax(logits/T), cut by top-k (0: off) and then top-p (1: off): the lowest id whose cumulative probability
// is over u. Of equal logits the lowest ids stay. One block a row; -1 where no token is left or a logit is NaN.
extern "C" __global__ void sample(int* out, const float* logits, int V, float T, int k, double p, const double* u) {
    __shared__ float red[32];
    __shared__ uint64_t red64[32];
    const float* x = logits + (long long)blockIdx.x * V;
    float m = -INFINITY, bad = 0.0f;
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        m = fmaxf(m, x[i]);
        if (x[i] != x[i]) bad = 1.0f;
    }
    m = block_max(m, red);
    bad = block_max(bad, red);
    if (bad > 0.0f || m == -INFINITY) {
        if (threadIdx.x == 0) out[blockIdx.x] = -1;
        return;
    }
    // What stays: keys over cut, and the first keep tokens of those that equal it.
    unsigned cut = 0;
    uint64_t keep = V, above;
    if (k > 0 && k < V) {
        cut = select_key(x, V, m, T, true, 0, k, above);
        keep = k - above;
    }
    if (p < 1.0) {
        uint64_t mine = 0, over, each = 0;
        for (int i = threadIdx.x; i < V; i += blockDim.x) {
            unsigned key = order_key(x[i]);
            if (key > cut) mine += mass(x[i], m, T);
        }
        scan(mine, red64, over);
        if (cut) each = mass(__uint_as_float(cut & 0x80000000u ? cut & 0x7fffffffu : ~cut), m, T);
        uint64_t want = (uint64_t)(p * (double)(over + (cut ? keep * each : 0)));
        if (want == 0) want = 1;
        if (over >= want) {
            cut = select_key(x, V, m, T, false, cut, want, above);
            each = mass(__uint_as_float(cut & 0x80000000u ? cut & 0x7fffffffu : ~cut), m, T);
            over = above;
        }
        if (cut) keep = (want - over + each - 1) / each;
    }
    int chunk = (V + blockDim.x - 1) / blockDim.x, from = min(V, threadIdx.x * chunk), to = min(V, from + chunk);
    uint64_t same = 0, total, mine = 0;
    for (int i = from; i < to; i++) same += order_key(x[i]) == cut;
    uint64_t nth = scan(same, red64, total);
    same = nth;
    for (int i = from; i < to; i++) {
        unsigned key = order_key(x[i]);
        if (key > cut || (key == cut && same++ < keep)) mine += mass(x[i], m, T);
    }
    uint64_t before = scan(mine, red64, total), target = (uint64_t)(u[blockIdx.x] * (double)total);
    if (target >= total) target = total - 1;
    if (target < before || target >= before + mine) return;
    same = nth;
    for (int i = from; i < to; i++) {
        unsigned key = order_key(x[i]);
        if (key > cut || (key == cut && same++ < keep)) before += mass(x[i], m, T);
        if (before > target) {
            out[blockIdx.x] = i;
            return;
        }
    }
}

// The largest logit's token, the lowest id of equal ones. One block a row; -1 where a logit is NaN or all are -Inf.
extern "C" __global__ void greedy(int* out, const float* logits, int V) {
    __shared__ float values[32];
    __shared__ int ids[32];
    __shared__ float red[32];
    const float* x = logits + (long long)blockIdx.x * V;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, at = V;
    float best = -INFINITY, bad = 0.0f;
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        if (x[i] > best) {
            best = x[i];
            at = i;
        }
        if (x[i] != x[i]) bad = 1.0f;
    }
    bad = block_max(bad, red);
    best_of(best, at);
    if (lane == 0) {
        values[warp] = best;
        ids[warp] = at;
    }
    __syncthreads();
    if (warp == 0) {
        best = lane < warps ? values[lane] : -INFINITY;
        at = lane < warps ? ids[lane] : V;
        best_of(best, at);
        if (lane == 0) out[blockIdx.x] = bad > 0.0f || at == V ? -1 : at;
    }
}
