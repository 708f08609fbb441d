// The block scheduler: fibers, barriers, shuffles, fault handling.
#include "cuda_host.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <link.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <vector>

enum State { NEW, READY, WAIT_BLOCK, WAIT_WARP, DONE };
struct Fiber : hc_thread { void *sp; void *stack; State st; unsigned parity; };
struct Warp { uint64_t slot[2][32]; unsigned arrived, mask; unsigned a[2][32][4], b[2][32][2]; };

constexpr size_t STACK = 128 << 10;

extern "C" void hc_switch(void **save, void *load);
#if defined(__x86_64__)
__asm__(".text\n.globl hc_switch\n.hidden hc_switch\nhc_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#else
#error "runtime.cpp: add hc_switch for this architecture"
#endif

struct hc_runner {
    const hc_kernel *k;
    void **params;
    hc_block blk;
    std::vector<Fiber> f;
    std::vector<Warp> w;
    std::vector<unsigned> order;
    std::vector<void *> free_stacks;
    std::vector<void *> all_stacks;
    std::vector<unsigned char> dyn;
    void *main_sp = nullptr;
    Fiber *running = nullptr;
    unsigned waiting = 0, done = 0;
    size_t at = 0;  // in order: the thread that runs
    bool skewed = false;
    sigjmp_buf fault;
    void *fault_addr = nullptr;
    bool misaligned = false;
    unsigned rng = 12345;

    static void entry() {
        hc_runner *r = hc_tls.running;
        r->k->call(r->params);
        r->running->st = DONE;
        r->yield();
        __builtin_trap();
    }
    static bool runs(const Fiber &t) { return t.st == NEW || t.st == READY; }
    // Straight to the next thread of this round that can run, or back to the scheduler. Where the block is skewed, the first in
    // the order that can run: a warp gets as far ahead of the others as barriers let it.
    void yield() {
        Fiber *from = running;
        if (from->st != DONE)  // a finished thread's stack is given away first, by the scheduler
            for (at = skewed ? 0 : at + 1; at < order.size(); at++)
                if (runs(f[order[at]])) {
                    Fiber &t = f[order[at]];
                    prepare(t);
                    running = &t;
                    hc_cur = &t;
                    if (&t != from) hc_switch(&from->sp, t.sp);
                    return;
                }
        hc_switch(&from->sp, main_sp);
    }
    void prepare(Fiber &t) {
        if (t.st != NEW) return;
        if (free_stacks.empty()) {
            void *s = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (s == MAP_FAILED) { perror("cpu driver: fiber stack"); abort(); }
            all_stacks.push_back(s);
            free_stacks.push_back(s);
        }
        t.stack = free_stacks.back();
        free_stacks.pop_back();
        void **top = (void **)((char *)t.stack + STACK - 64);
        *top = (void *)entry;        // return address for hc_switch's ret
        t.sp = top - 6;              // six saved registers below it
        t.st = READY;
    }
    void resume(Fiber &t) {
        prepare(t);
        running = &t;
        hc_cur = &t;
        hc_switch(&main_sp, t.sp);
        hc_cur = nullptr;
        if (running->st == DONE) { done++; free_stacks.push_back(running->stack); running->stack = nullptr; }
    }
    int fail(int rc, const char *what) {
        fprintf(stderr, "cpu driver: kernel %s, block (%u,%u,%u)x(%u,%u,%u): %s\n", k->name, blk.bid.x, blk.bid.y, blk.bid.z,
                blk.bdim.x, blk.bdim.y, blk.bdim.z, what);
        free_stacks = all_stacks;
        return rc;
    }
    int run_block(int mode) {
        unsigned n = blk.bdim.x * blk.bdim.y * blk.bdim.z;
        f.resize(n);
        w.assign((n + 31) / 32, Warp{});
        order.resize(n);
        waiting = done = 0;
        for (unsigned i = 0; i < n; i++) {
            f[i] = Fiber{};
            f[i].tid = {i % blk.bdim.x, i / blk.bdim.x % blk.bdim.y, i / (blk.bdim.x * blk.bdim.y)};
            f[i].blk = &blk;
            f[i].lane = i & 31;
            order[i] = mode == 1 ? n - 1 - i : i;
        }
        skewed = false;
        if (mode == 2) {
            auto random = [this](unsigned below) { rng ^= rng << 13; rng ^= rng >> 17; rng ^= rng << 5; return rng % below; };  // xorshift32
            for (unsigned i = n - 1; i > 0; i--) std::swap(order[i], order[random(i + 1)]);
            skewed = random(2);
            if (skewed) {  // the warps one after the other, in an order of their own
                unsigned first = random(w.size()), step = random(2) ? 1 : w.size() - 1;
                auto rank = [&](unsigned i) { return (i / 32 + first) * step % w.size(); };
                std::stable_sort(order.begin(), order.end(), [&](unsigned i, unsigned j) { return rank(i) < rank(j); });
            }
        }
        memset(dyn.data(), 0xff, dyn.size());  // NaNs
        blk.dyn = dyn.data();
        if (sigsetjmp(fault, 1)) {
            char msg[120];
            const hc_dim3 t = running->tid;
            hc_cur = nullptr;
            snprintf(msg, sizeof msg, "%s address %p in thread (%u,%u,%u)", misaligned ? "misaligned" : "illegal", fault_addr, t.x, t.y, t.z);
            int rc = misaligned ? 716 : 700;
            misaligned = false;
            return fail(rc, msg);
        }
        while (done < n) {
            bool progress = false;
            for (at = 0; at < n; at++)
                if (runs(f[order[at]])) {
                    resume(f[order[at]]);
                    progress = true;
                    if (skewed) at = -1;
                }
            if (!progress) return fail(719, waiting ? "some threads wait at __syncthreads() and the others never come"
                                                    : "a warp operation waits for lanes that never come");
            if (done && waiting) return fail(719, "threads left the kernel while others wait at __syncthreads()");
        }
        return 0;
    }
};

namespace {
struct sigaction old_segv, old_bus;
void on_fault(int sig, siginfo_t *si, void *uc) {
    if (hc_tls.running && hc_cur) { hc_tls.running->fault_addr = si->si_addr; siglongjmp(hc_tls.running->fault, 1); }
    struct sigaction &o = sig == SIGSEGV ? old_segv : old_bus;  // not ours: Go's handler
    if (o.sa_flags & SA_SIGINFO) o.sa_sigaction(sig, si, uc);
    else { sigaction(sig, &o, nullptr); }
}
}  // namespace

__thread hc_tls_t hc_tls = {nullptr, nullptr, nullptr, nullptr, 1};

// Fills this OS thread's __shared__ memory, which is what the library keeps in .tbss, with NaNs.
struct Tbss { size_t size; ptrdiff_t from; };
static void poison_shared() {
    static const Tbss shared = [] {
        Tbss t{};
        dl_iterate_phdr([](dl_phdr_info *info, size_t, void *out) {
            const ElfW(Phdr) *tls = nullptr;
            bool ours = false;
            for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) &h = info->dlpi_phdr[i];
                uintptr_t at = info->dlpi_addr + h.p_vaddr, here = (uintptr_t)&hc_run;
                if (h.p_type == PT_TLS) tls = &h;
                ours |= h.p_type == PT_LOAD && here >= at && here < at + h.p_memsz;
            }
            if (!ours || !tls) return 0;
            *(Tbss *)out = {tls->p_memsz - tls->p_filesz, (char *)info->dlpi_tls_data + tls->p_filesz - (char *)&hc_tls};
            return 1;
        }, &t);
        return t;
    }();
    memset((char *)&hc_tls + shared.from, 0xff, shared.size);
}

void hc_misaligned(const void *p) {
    hc_tls.running->misaligned = true;
    hc_tls.running->fault_addr = (void *)p;
    siglongjmp(hc_tls.running->fault, 1);
}

void hc_syncthreads() {
    hc_runner *r = hc_tls.running;
    if (++r->waiting == r->f.size() - r->done) {
        r->waiting = 0;
        for (Fiber &t : r->f) if (t.st == WAIT_BLOCK) t.st = READY;
        if (!r->done) return;
        r->waiting = 1;  // somebody left early: reported by run_block
    }
    r->running->st = WAIT_BLOCK;
    r->yield();
}

void hc_syncwarp(unsigned mask) {
    hc_runner *r = hc_tls.running;
    Fiber *t = r->running;
    unsigned id = t - r->f.data();
    Warp &w = r->w[id / 32];
    unsigned in_warp = r->f.size() - id / 32 * 32;
    if (in_warp < 32) mask &= (1u << in_warp) - 1;
    w.arrived |= 1u << t->lane;
    if ((w.arrived & mask) == mask) {
        w.arrived &= ~mask;
        for (unsigned l = 0; l < 32; l++) if (mask >> l & 1) { Fiber &o = r->f[id / 32 * 32 + l]; if (o.st == WAIT_WARP) o.st = READY; }
        return;
    }
    t->st = WAIT_WARP;
    r->yield();
}

uint64_t hc_shuffle(unsigned mask, uint64_t bits, unsigned src) {
    hc_runner *r = hc_tls.running;
    Fiber *t = r->running;
    Warp &w = r->w[(t - r->f.data()) / 32];
    unsigned p = t->parity;
    t->parity ^= 1;
    w.slot[p][t->lane] = bits;
    hc_syncwarp(mask);
    return w.slot[p][src & 31];
}

static float number(unsigned word, int half, bool bf16) {
    unsigned short h = word >> (16 * half);
    unsigned u = (unsigned)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return bf16 ? f : half_float(h);
}

void hc_mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], bool bf16) {
    hc_runner *r = hc_tls.running;
    Fiber *t = r->running;
    Warp &w = r->w[(t - r->f.data()) / 32];
    unsigned p = t->parity;
    t->parity ^= 1;
    memcpy(w.a[p][t->lane], a, sizeof a);
    memcpy(w.b[p][t->lane], b, sizeof b);
    hc_syncwarp(0xffffffffu);
    for (int i = 0; i < 4; i++) {
        int row = t->lane / 4 + i / 2 * 8, col = t->lane % 4 * 2 + i % 2;
        float sum = 0;
        for (int k = 0; k < 16; k++)
            sum += number(w.a[p][row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2, bf16) * number(w.b[p][col * 4 + k % 8 / 2][k / 8], k % 2, bf16);
        d[i] += sum;
    }
}

namespace {
// Threads that wait for work from launch to launch.
struct Helpers {
    std::mutex mu;
    std::condition_variable wake, finished;
    std::function<void()> job;
    uint64_t round = 0;
    unsigned threads = 0, wanted = 0, busy = 0;

    void run(const std::function<void()> &work, uint64_t others) {
        unsigned most = std::thread::hardware_concurrency() - 1;
        unsigned n = others < most ? others : most;
        if (n) {
            std::unique_lock<std::mutex> l(mu);
            for (; threads < n; threads++) start();
            job = work;
            round++;
            wanted = busy = n;
            wake.notify_all();
        }
        work();
        if (n) {
            std::unique_lock<std::mutex> l(mu);
            finished.wait(l, [&] { return busy == 0; });
        }
    }
    void start() {
        sigset_t all, before;
        sigfillset(&all);
        sigdelset(&all, SIGSEGV);
        sigdelset(&all, SIGBUS);
        pthread_sigmask(SIG_BLOCK, &all, &before);  // helpers must not take Go's signals
        std::thread([this] {
            uint64_t seen = 0;
            std::unique_lock<std::mutex> l(mu);
            for (;;) {
                wake.wait(l, [&] { return wanted > 0 && round != seen; });
                seen = round;
                wanted--;
                std::function<void()> f = job;
                l.unlock();
                f();
                l.lock();
                if (--busy == 0) finished.notify_all();
            }
        }).detach();
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
};
Helpers &helpers = *new Helpers;  // outlives every thread
}  // namespace

int hc_run(const hc_kernel &k, void **params, hc_dim3 g, hc_dim3 b, size_t dynshared) {
    static std::mutex one_launch;
    std::lock_guard<std::mutex> lock(one_launch);
    const char *e = getenv("CUDACPU_ORDER");
    int mode = !e ? 0 : !strcmp(e, "reverse") ? 1 : !strcmp(e, "random") ? 2 : 0;
    struct sigaction sa = {};
    sa.sa_sigaction = on_fault;
    sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigfillset(&sa.sa_mask);
    sigaction(SIGSEGV, &sa, &old_segv);
    sigaction(SIGBUS, &sa, &old_bus);
    std::atomic<uint64_t> next{0};
    std::atomic<int> rc{0};
    uint64_t nblocks = (uint64_t)g.x * g.y * g.z;
    auto work = [&] {
        if (!hc_tls.mine) hc_tls.mine = new hc_runner;  // its stacks are used again by the next launch
        hc_runner &r = *hc_tls.mine;
        hc_tls.running = &r;
        poison_shared();
        r.k = &k;
        r.params = params;
        r.blk.bdim = b;
        r.blk.gdim = g;
        r.dyn.resize(dynshared);
        for (uint64_t i; !rc && (i = next++) < nblocks;) {
            uint64_t j = mode == 1 ? nblocks - 1 - i : i;
            r.blk.bid = {(unsigned)(j % g.x), (unsigned)(j / g.x % g.y), (unsigned)(j / ((uint64_t)g.x * g.y))};
            if (int c = r.run_block(mode)) rc = c;
        }
        hc_tls.running = nullptr;
    };
    helpers.run(work, nblocks > 1 && nblocks * b.x * b.y * b.z >= 1024 ? nblocks - 1 : 0);
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
    return rc;
}
