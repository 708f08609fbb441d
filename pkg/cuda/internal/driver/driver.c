//go:build cuda && cgo

// Run-time loading of the CUDA driver library.
//
// gorgonia.org/cu links against -lcuda and calls cuInit in a package init(); when that fails it
// calls os.Exit(1).  Both would make a binary built with -tags cuda useless on a machine without a
// driver.  This file defines every driver symbol that package needs as a jump through a table that
// is filled by dlopen("libcuda.so.1") in cuInit; cuInit itself always succeeds and the real
// result is reported by every later call (and by driver.Err in Go).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { ERR_NO_DRIVER = 100 /* CUDA_ERROR_NO_DEVICE */, ERR_MISSING = 801 /* NOT_SUPPORTED */ };

static int init_rc = 3; /* CUDA_ERROR_NOT_INITIALIZED */
static char message[512] = "cuInit was not called";
static char path[256];

static int failed(void) { return init_rc; }
static int missing(void) { return ERR_MISSING; }

#define X(n) HIDDEN void *driver_##n = (void *)failed;
#include "symbols.inc"
#undef X

#if defined(__x86_64__)
#define JUMP(n) "jmp *driver_" #n "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(n) "adrp x16, driver_" #n "\nldr x16, [x16, :lo12:driver_" #n "]\nbr x16\n"
#else
#error "driver: unsupported architecture"
#endif
#define X(n) __asm__(".text\n.p2align 4\n.globl " #n "\n.hidden " #n "\n.type " #n ", @function\n" #n ":\n" JUMP(n) ".size " #n ", .-" #n "\n");
#include "symbols.inc"
#undef X

static struct { const char *name; void **slot; } table[] = {
#define X(n) {#n, &driver_##n},
#include "symbols.inc"
#undef X
};

HIDDEN int cuInit(unsigned flags) {
    const char *env = getenv("CUDA_DRIVER_LIB");
    const char *names[] = {env, "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                           "/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so"};
    void *lib = NULL;
    const char *first = NULL;
    static char firsterr[256];
    for (unsigned i = 0; i < sizeof names / sizeof *names && !lib; i++) {
        if (!names[i] || !*names[i]) continue;
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib) snprintf(path, sizeof path, "%s", names[i]);
        else if (!first) { snprintf(firsterr, sizeof firsterr, "%s", dlerror()); first = firsterr; }
        if (i == 0) break; /* an explicit choice has no fallback */
    }
    if (!lib) {
        init_rc = ERR_NO_DRIVER;
        snprintf(message, sizeof message, "no CUDA driver library: %s", first ? first : "not found");
        return 0;
    }
    int (*real)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
    init_rc = real ? real(flags) : ERR_MISSING;
    if (init_rc != 0) {
        const char *why = init_rc == 100 ? ": it shows no device (is there a GPU, and does CUDA_VISIBLE_DEVICES name it?)"
                        : init_rc == 803 ? ": library and kernel module of the driver have different versions"
                        : init_rc == 999 ? ": is the driver's kernel module loaded?"
                        : init_rc == ERR_MISSING ? ": this is not a CUDA driver" : "";
        snprintf(message, sizeof message, "the CUDA driver %s doesn't start, error %d%s", path, init_rc, why);
        return 0;
    }
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        void *p = dlsym(lib, table[i].name);
        *table[i].slot = p ? p : (void *)missing;
    }
    message[0] = 0;
    return 0;
}

HIDDEN const char *driver_message(void) { return message; }
HIDDEN const char *driver_path(void) { return path; }
