// The block scheduler: fibers, barriers, shuffles, fault handling.
#include "cuda_host.h"
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {
enum State { NEW, READY, WAIT_BLOCK, WAIT_WARP, DONE };
struct Fiber : hc_thread { void *sp; void *stack; State st; unsigned parity; };
struct Warp { uint64_t slot[2][32]; unsigned arrived, mask; };

struct Runner;
thread_local Runner *cur_runner;
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

struct Runner {
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
    sigjmp_buf fault;
    void *fault_addr = nullptr;
    bool misaligned = false;
    unsigned rng = 12345;
    ~Runner() { for (void *s : all_stacks) munmap(s, STACK); }

    static void entry() {
        Runner *r = cur_runner;
        r->k->call(r->params);
        r->running->st = DONE;
        r->yield();
        __builtin_trap();
    }
    void yield() { hc_switch(&running->sp, main_sp); }
    void resume(Fiber &t) {
        if (t.st == NEW) {
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
        running = &t;
        hc_cur = &t;
        hc_switch(&main_sp, t.sp);
        hc_cur = nullptr;
        if (t.st == DONE) { done++; free_stacks.push_back(t.stack); t.stack = nullptr; }
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
        if (mode == 2)
            for (unsigned i = n - 1; i > 0; i--) { rng = rng * 1664525 + 1013904223; std::swap(order[i], order[(rng >> 8) % (i + 1)]); }
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
            for (unsigned i : order)
                if (f[i].st == NEW || f[i].st == READY) { resume(f[i]); progress = true; }
            if (!progress) return fail(719, waiting ? "some threads wait at __syncthreads() and the others never come"
                                                    : "a warp operation waits for lanes that never come");
            if (done && waiting) return fail(719, "threads left the kernel while others wait at __syncthreads()");
        }
        return 0;
    }
};

struct sigaction old_segv, old_bus;
void on_fault(int sig, siginfo_t *si, void *uc) {
    if (cur_runner && hc_cur) { cur_runner->fault_addr = si->si_addr; siglongjmp(cur_runner->fault, 1); }
    struct sigaction &o = sig == SIGSEGV ? old_segv : old_bus;  // not ours: Go's handler
    if (o.sa_flags & SA_SIGINFO) o.sa_sigaction(sig, si, uc);
    else { sigaction(sig, &o, nullptr); }
}
}  // namespace

thread_local hc_thread *hc_cur;

void hc_misaligned(const void *p) {
    cur_runner->misaligned = true;
    cur_runner->fault_addr = (void *)p;
    siglongjmp(cur_runner->fault, 1);
}

void hc_syncthreads() {
    Runner *r = cur_runner;
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
    Runner *r = cur_runner;
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
    Runner *r = cur_runner;
    Fiber *t = r->running;
    Warp &w = r->w[(t - r->f.data()) / 32];
    unsigned p = t->parity;
    t->parity ^= 1;
    w.slot[p][t->lane] = bits;
    hc_syncwarp(mask);
    return w.slot[p][src & 31];
}

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
        thread_local Runner r;
        cur_runner = &r;
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
        cur_runner = nullptr;
    };
    unsigned nt = std::thread::hardware_concurrency();
    if (nt > nblocks) nt = nblocks;
    std::vector<std::thread> pool;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &all, &before);  // helpers must not take Go's signals
    for (unsigned i = 1; i < nt; i++) pool.emplace_back(work);
    work();
    for (auto &t : pool) t.join();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
    return rc;
}
