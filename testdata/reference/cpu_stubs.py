#!/usr/bin/env python3
"""Make the PyPI build of torch importable on a machine without NVIDIA's libraries.

    cpu_stubs.py SITE_PACKAGES

torch's Linux wheel links to about twenty CUDA libraries that arrive as packages of 2.5 GB. Work on
the CPU calls none of them, but the dynamic loader wants every library and every symbol to exist. So
this script reads with readelf what torch's own libraries ask for, and compiles, for each missing
library, an empty stand-in whose functions answer "no device" (cudaErrorNoDevice, 100).
"""
import collections
import glob
import os
import re
import subprocess
import sys

CUDA_LIBRARY = re.compile(r"^(libcu|libnv|libnccl)")
CUDA_SYMBOL = re.compile(r"^(cu[a-zA-Z]|nccl|nv|__cuda|cudnn|CU)")

# Libraries that torch's Python side loads by name, or that CUDA's own libraries would have brought.
ALSO_NEEDED = [
    "libcudart.so.13", "libcublasLt.so.13", "libnvrtc-builtins.so.13.2", "libnvJitLink.so.13",
    "libcusolver.so.12", "libnvshmem_host.so.3", "libnvToolsExt.so.1",
]
# Symbols without a version tag say nothing about their library: their prefix does.
LIBRARY_OF_PREFIX = [
    ("cusparseLt", "libcusparseLt.so.0"), ("nccl", "libnccl.so.2"), ("cuFile", "libcufile.so.0"),
    ("cupti", "libcupti.so.13"), ("cuda", "libcudart.so.13"), ("__cuda", "libcudart.so.13"),
]
OTHERWISE = "libnvJitLink.so.13"
NVSHMEM = "libnvshmem_host.so.3"


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True).stdout


def wanted(torch_lib):
    """The libraries torch lacks, and the undefined symbols by version tag ('' for none)."""
    shipped = {os.path.basename(p) for p in glob.glob(torch_lib + "/*")}
    libraries, undefined, defined = set(), collections.defaultdict(set), set()
    for path in glob.glob(torch_lib + "/*.so*"):
        names = re.findall(r"NEEDED\).*\[(.*?)\]", readelf("-d", path))
        libraries |= {n for n in names if CUDA_LIBRARY.match(n) and n not in shipped}
        for line in readelf("--dyn-syms", path).splitlines():
            field = line.split()
            if len(field) < 8:
                continue
            name, _, version = field[7].partition("@")
            version = version.lstrip("@")
            if field[6] != "UND":
                defined.add(name)
            elif CUDA_LIBRARY.match(version) or version == "NVSHMEM" or (not version and CUDA_SYMBOL.match(name)):
                undefined[version].add(name)
    undefined[""] -= defined
    return libraries, undefined


def symbols_by_library(libraries, undefined):
    table = {name: set(undefined.get(name, ())) for name in libraries}
    for name in ALSO_NEEDED:
        table.setdefault(name, set())
    table[NVSHMEM] = set(undefined.get("NVSHMEM", ()))
    for symbol in undefined[""]:
        home = next((lib for prefix, lib in LIBRARY_OF_PREFIX if symbol.startswith(prefix)), OTHERWISE)
        table.setdefault(home, set()).add(symbol)
    return table


def source(library, symbols):
    lines = [f"int stub_{re.sub(r'[^0-9A-Za-z]', '_', library)};"]
    for s in sorted(symbols):
        if re.search(r"ErrorString|ErrorName|GetStatusString|StatusName", s):
            lines.append(f'const char *{s}(void) {{ return "no CUDA on this machine"; }}')
        else:  # registration calls and "last error" must succeed, everything else finds no device
            ok = s.startswith("__cuda") or s in ("cudaGetLastError", "cudaPeekAtLastError")
            lines.append(f"long {s}(void) {{ return {0 if ok else 100}; }}")
    return "\n".join(lines) + "\n"


def main(site):
    out = os.path.join(site, "nvidia", "cu13", "lib")
    os.makedirs(out, exist_ok=True)
    libraries, undefined = wanted(os.path.join(site, "torch", "lib"))
    for library, symbols in symbols_by_library(libraries, undefined).items():
        c, versions = os.path.join(out, library + ".c"), os.path.join(out, library + ".map")
        with open(c, "w") as f:
            f.write(source(library, symbols))
        command = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", os.path.join(out, library), c,
                   "-Wl,-soname," + library]
        if library in undefined or library == NVSHMEM:  # torch asks for versioned symbols
            with open(versions, "w") as f:
                f.write(("NVSHMEM" if library == NVSHMEM else library) + " { *; };\n")
            command.append("-Wl,--version-script=" + versions)
        subprocess.check_call(command)
        for path in (c, versions):
            if os.path.exists(path):
                os.remove(path)


if __name__ == "__main__":
    main(sys.argv[1])
