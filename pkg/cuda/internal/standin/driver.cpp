// libcudacpu.so: the part of the CUDA driver API this project uses, on host memory.
// Load it instead of libcuda: CUDA_DRIVER_LIB=/path/libcudacpu.so. Everything is synchronous.
#include "cuda_host.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#include <cuda.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

struct CUmod_st { std::map<std::string, std::vector<int>> entries; std::vector<CUfunc_st *> fns; };
struct CUfunc_st { const hc_kernel *k; };
struct CUctx_st { int dev; CUresult sticky; };
struct CUstream_st { int x; };
struct CUevent_st { std::chrono::steady_clock::time_point t; bool set; };

static std::mutex mu;
#define cur (*(CUcontext *)&hc_tls.context)  // the thread's current context
struct Alloc { size_t size; void *map; size_t maplen; CUcontext ctx; };
static std::map<CUdeviceptr, Alloc> allocs;
static size_t used;

// What a test may want to pretend, from the environment.
static long setting(const char *name, long otherwise) { const char *e = getenv(name); return e && *e ? atol(e) : otherwise; }
static const size_t TOTAL = setting("CUDACPU_MEMORY", 4L << 30);        // bytes of device memory
static const int DRIVER = setting("CUDACPU_DRIVER", 12020);              // version of the driver
static const int CAPABILITY = setting("CUDACPU_CAPABILITY", 80);         // compute capability × 10
static std::atomic<long> lose_after{setting("CUDACPU_LOSE_AFTER", -1)};  // launches until the device falls off the bus

#define NEED_CTX if (!cur) return CUDA_ERROR_INVALID_CONTEXT; if (cur->sticky) return cur->sticky

// Bytes between the end of an array and its guard page hold a pattern; a kernel must leave it alone.
static constexpr unsigned char CANARY = 0xa5;
static bool canaries_intact(const char *kernel) {
    std::lock_guard<std::mutex> l(mu);
    for (auto &[p, a] : allocs) {
        unsigned char *e = (unsigned char *)p + a.size, *end = (unsigned char *)a.map + a.maplen - sysconf(_SC_PAGESIZE);
        for (; e < end; e++)
            if (*e != CANARY) { fprintf(stderr, "cpu driver: kernel %s wrote past the end of a %zu-byte array\n", kernel, a.size); return false; }
    }
    return true;
}

static bool inside(CUdeviceptr p, size_t n) {
    std::lock_guard<std::mutex> l(mu);
    auto it = allocs.upper_bound(p);
    if (it == allocs.begin()) return false;
    --it;
    return p >= it->first && p + n <= it->first + it->second.size;
}

extern "C" {
static int device_count() {
    const char *e = getenv("CUDA_VISIBLE_DEVICES");
    if (e && !(*e >= '0' && *e <= '9')) return 0;
    return setting("CUDACPU_DEVICES", 1);
}
CUresult cuInit(unsigned) { return device_count() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int *v) { *v = DRIVER; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = device_count(); return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int i) { if (i < 0 || i >= device_count()) return CUDA_ERROR_INVALID_DEVICE; *d = i; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *s, int n, CUdevice) { snprintf(s, n, "CPU pretending to be a CUDA device"); return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *n, CUdevice) { *n = TOTAL; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
    switch (a) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = CAPABILITY / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = CAPABILITY % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *v = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *v = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 2; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *v = 2048; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *v = 100 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *v = 65536; break;
    default: *v = 0;
    }
    return CUDA_SUCCESS;
}
CUresult cuCtxCreate(CUcontext *c, unsigned, CUdevice d) { *c = cur = new CUctx_st{d, CUDA_SUCCESS}; return CUDA_SUCCESS; }
CUresult cuCtxDestroy(CUcontext c) {  // memory goes with its context
    std::lock_guard<std::mutex> l(mu);
    for (auto it = allocs.begin(); it != allocs.end();)
        if (it->second.ctx == c) { used -= it->second.size; munmap(it->second.map, it->second.maplen); it = allocs.erase(it); }
        else ++it;
    if (cur == c) cur = nullptr;
    delete c;
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext c) { cur = c; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *c) { *c = cur; return CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { NEED_CTX; return CUDA_SUCCESS; }

CUresult cuMemGetInfo(size_t *f, size_t *t) { NEED_CTX; *t = TOTAL; *f = TOTAL - used; return CUDA_SUCCESS; }
CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
    NEED_CTX;
    if (!n) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> l(mu);
    if (used + n > TOTAL) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t pg = sysconf(_SC_PAGESIZE), body = (n + pg - 1) / pg * pg, len = body + 2 * pg;
    char *m = (char *)mmap(nullptr, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED || mprotect(m + pg, body, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
    char *u = m + pg + (body - n) / 16 * 16;  // the end touches the guard page (16-byte alignment)
    memset(u, 0xff, n);                       // uninitialised floats read as NaN
    memset(u + n, CANARY, m + pg + body - (u + n));
    *p = (CUdeviceptr)u;
    allocs[*p] = {n, m, len, cur};
    used += n;
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) {
    NEED_CTX;
    std::lock_guard<std::mutex> l(mu);
    auto it = allocs.find(p);
    if (it == allocs.end()) return CUDA_ERROR_INVALID_VALUE;
    used -= it->second.size;
    munmap(it->second.map, it->second.maplen);
    allocs.erase(it);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr d, const void *s, size_t n) { NEED_CTX; if (!inside(d, n)) return CUDA_ERROR_INVALID_VALUE; memcpy((void *)d, s, n); return CUDA_SUCCESS; }
CUresult cuMemcpyDtoH(void *d, CUdeviceptr s, size_t n) { NEED_CTX; if (!inside(s, n)) return CUDA_ERROR_INVALID_VALUE; memcpy(d, (void *)s, n); return CUDA_SUCCESS; }
CUresult cuMemcpyDtoD(CUdeviceptr d, CUdeviceptr s, size_t n) { NEED_CTX; if (!inside(d, n) || !inside(s, n)) return CUDA_ERROR_INVALID_VALUE; memmove((void *)d, (void *)s, n); return CUDA_SUCCESS; }
CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void *s, size_t n, CUstream) { return cuMemcpyHtoD(d, s, n); }
CUresult cuMemcpyDtoHAsync(void *d, CUdeviceptr s, size_t n, CUstream) { return cuMemcpyDtoH(d, s, n); }
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream) { return cuMemcpyDtoD(d, s, n); }
CUresult cuMemsetD8(CUdeviceptr d, unsigned char v, size_t n) { NEED_CTX; if (!inside(d, n)) return CUDA_ERROR_INVALID_VALUE; memset((void *)d, v, n); return CUDA_SUCCESS; }
CUresult cuMemsetD32(CUdeviceptr d, unsigned v, size_t n) {
    NEED_CTX;
    if (!inside(d, n * 4)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) ((unsigned *)d)[i] = v;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned) { NEED_CTX; *s = new CUstream_st; return CUDA_SUCCESS; }
CUresult cuStreamDestroy(CUstream s) { delete s; return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { NEED_CTX; return CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent *e, unsigned) { NEED_CTX; *e = new CUevent_st{}; return CUDA_SUCCESS; }
CUresult cuEventDestroy(CUevent e) { delete e; return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent e, CUstream) { NEED_CTX; e->t = std::chrono::steady_clock::now(); e->set = true; return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent e) { return e->set ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { *ms = std::chrono::duration<float, std::milli>(b->t - a->t).count(); return CUDA_SUCCESS; }

// The PTX is not run, but it is read: entry names and parameter sizes must agree with the host kernels.
CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    NEED_CTX;
    std::string s((const char *)image);
    size_t version = s.find(".version ");
    if (version == std::string::npos) return CUDA_ERROR_INVALID_IMAGE;
    double isa = atof(s.c_str() + version + 9);  // PTX 7.0 came with CUDA 11.0, 8.0 with 12.0, 9.0 with 13.0
    if ((int)isa - 7 > DRIVER / 1000 - 11 || ((int)isa - 7 == DRIVER / 1000 - 11 && (int)(isa * 10 + 0.5) % 10 > DRIVER % 1000 / 10))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    size_t target = s.find(".target sm_");
    if (target != std::string::npos && atoi(s.c_str() + target + 11) > CAPABILITY) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    auto *m = new CUmod_st;
    for (size_t p = 0; (p = s.find(".entry ", p)) != std::string::npos;) {
        p += 7;
        size_t open = s.find('(', p), close = s.find(')', open);
        std::string name = s.substr(p, open - p);
        auto &sizes = m->entries[name];
        for (size_t q = open; (q = s.find(".param .", q)) != std::string::npos && q < close;) {
            q += 8;                                   // e.g. u64, f32, align 8 .b8 name[16]
            size_t bits = s.find_first_of("0123456789", q);
            if (s.compare(q, 5, "align") == 0) { delete m; return CUDA_ERROR_INVALID_PTX; }  // struct parameters: not used here
            sizes.push_back(atoi(s.c_str() + bits) / 8);
        }
    }
    *out = m;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned, CUjit_option *, void **) { return cuModuleLoadData(out, image); }
CUresult cuModuleUnload(CUmodule m) { for (auto *f : m->fns) delete f; delete m; return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    NEED_CTX;
    auto e = m->entries.find(name);
    if (e == m->entries.end()) return CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < hc_nkernels; i++) {
        const hc_kernel &k = hc_kernels[i];
        if (strcmp(k.name, name)) continue;
        if (e->second != std::vector<int>(k.sizes, k.sizes + k.nparams)) {
            fprintf(stderr, "cpu driver: parameters of %s differ between the PTX and the host kernel: stale PTX?\n", name);
            return CUDA_ERROR_INVALID_PTX;
        }
        m->fns.push_back(*f = new CUfunc_st{&k});
        return CUDA_SUCCESS;
    }
    fprintf(stderr, "cpu driver: %s is in the PTX but not among the host kernels\n", name);
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction) { *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0; return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int threads, size_t) { *n = 2048 / threads; return CUDA_SUCCESS; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned dyn, CUstream, void **params, void **extra) {
    NEED_CTX;
    if (!f || extra || !gx || !gy || !gz || !bx || !by || !bz) return CUDA_ERROR_INVALID_VALUE;
    if ((uint64_t)bx * by * bz > 1024 || bx > 1024 || by > 1024 || bz > 64 || gx > 2147483647u || gy > 65535 || gz > 65535 || dyn > 48 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    if (lose_after >= 0 && --lose_after < 0) {
        cur->sticky = CUDA_ERROR_LAUNCH_FAILED;
        return CUDA_SUCCESS;
    }
    cur->sticky = (CUresult)hc_run(*f->k, params, {gx, gy, gz}, {bx, by, bz}, dyn);
    if (!cur->sticky && !canaries_intact(f->k->name)) cur->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return CUDA_SUCCESS;  // like the real one: a kernel's own failure shows at the next call
}
}
