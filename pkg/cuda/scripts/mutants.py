#!/usr/bin/env python3
"""Breaks kernels.cu in many small ways, one at a time, and checks that the tests notice on the stand-in driver.

usage: mutants.py [NAME...]        after .ci/cuda.sh setup; prints a line for each mutant and the counts

A mutant is caught when a test fails in one of the three thread orders: first the tests of its stage, then all that compare
kernels with the CPU. Each is (name, text, replacement); the text must occur exactly once.
"""
import os, subprocess, sys, tempfile, time

ORDERS = ("forward", "reverse", "random")

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
cuda = os.environ.get("CUDA_DIR", os.path.join(here, "../../.forwardpass/cuda"))
include = os.path.join(cuda, "nvidia/cuda_runtime/include")
source = open(os.path.join(here, "internal/kernels/kernels.cu")).read()

mutants = {"Norm|Softmax|Linear$": [
    ("warp_sum leaves out the last halving", "for (int o = 16; o > 0; o >>= 1) v += __shfl", "for (int o = 16; o > 1; o >>= 1) v += __shfl"),
    ("warp_max starts at 8", "for (int o = 16; o > 0; o >>= 1) v = fmaxf", "for (int o = 8; o > 0; o >>= 1) v = fmaxf"),
    ("block_sum without its first barrier", "v = warp_sum(v);\n    __syncthreads();", "v = warp_sum(v);"),
    ("block_sum without its second barrier", "if (lane == 0) red[warp] = v;\n    __syncthreads();\n    return warp_sum", "if (lane == 0) red[warp] = v;\n    return warp_sum"),
    ("block_max without its second barrier", "if (lane == 0) red[warp] = v;\n    __syncthreads();\n    return warp_max", "if (lane == 0) red[warp] = v;\n    return warp_max"),
    ("block_max from 0 instead of -inf", "warp_max(lane < warps ? red[lane] : -INFINITY)", "warp_max(lane < warps ? red[lane] : 0.0f)"),
], "Linear$|Embed": [
    ("F32 reads the second half twice", "float4 lo = ld(p), hi = ld(p + 1);", "float4 lo = ld(p + 1), hi = ld(p + 1);"),
    ("BF16 upper half unmasked", "__uint_as_float(word[i] & 0xffff0000u)", "__uint_as_float(word[i] << 8)"),
    ("Q8 unsigned", "out[i] = d * (float)(signed char)(v.x >> (8 * i));", "out[i] = d * (float)(unsigned char)(v.x >> (8 * i));"),
    ("Q8 scale of the row's first block", "float d = half_float(a.d[at >> 5]);", "float d = half_float(a.d[(r * a.ld) >> 5]);"),
    ("Q4 minimum forgotten", "m = a.m ? half_float(a.m[at >> 5]) : -8.0f * d;", "m = -8.0f * d;"),
    ("Q4 without offset", "half_float(a.m[at >> 5]) : -8.0f * d", "half_float(a.m[at >> 5]) : 0.0f"),
    ("load8 one column too far", "out[i] = k + i < n ? x[k + i] : 0.0f;", "out[i] = k + i <= n ? x[k + i] : 0.0f;"),
    ("load8 forgets that rows may be unaligned", "if (k + 8 <= n && n % 4 == 0) {", "if (k + 8 <= n) {"),
    ("embedding of the position, not the id", "long long r = index[blockIdx.x];", "long long r = blockIdx.x;"),
    ("embedding one column too far", "for (int i = 0; i < 8 && k + i < C; i++) y[k + i]", "for (int i = 0; i < 8 && k + i <= C; i++) y[k + i]"),
], "Linear|Fast": [
    ("gemv drops the bias", "y[(long long)t * N + n0 + r] = v + (bias ? bias[n0 + r] : 0.0f);", "y[(long long)t * N + n0 + r] = v;"),
    ("gemv writes rows past the end", "if (lane == 0 && t < T && n0 + r < N)", "if (lane == 0 && t < T)"),
    ("gemv writes tokens past the end", "if (lane == 0 && t < T && n0 + r < N)", "if (lane == 0 && n0 + r < N)"),
    ("gemv reads a row past the end", "second ? n0 + 1 : n0, k, w[1]", "n0 + 1, k, w[1]"),
    ("gemv's second layer has the first one's bias", "y = y1; bias = b1;", "y = y1;"),
    ("gemv's third layer has the second one's rows", "a.w = w2; a.d = d2; a.m = m2; N = N2;", "a.w = w2; a.d = d2; a.m = m2; N = N1;"),
    ("gemm without its first barrier", "unpack8<TYPE>(a, n0 + row, k0 + k8, wv);\n        __syncthreads();", "unpack8<TYPE>(a, n0 + row, k0 + k8, wv);"),
    ("gemm without its second barrier", "ws[k8 + i][row] = wv[i];\n        }\n        __syncthreads();", "ws[k8 + i][row] = wv[i];\n        }"),
    ("gemm reads x past the end", "if (m0 + row < M) xr = x + (long long)(in ? in[m0 + row] / in_div : m0 + row) * K;\n    float acc[4][4] = {};", "xr = x + (long long)(in ? in[m0 + row] / in_div : m0 + row) * K;\n    float acc[4][4] = {};"),
    ("gemm reads weights past the end", "if (n0 + row < N && k0 + k8 < a.ld)", "if (k0 + k8 < a.ld)"),
    ("gemm writes columns past the end", "if (n < N) yr[n] = acc[i][j] + (bias", "yr[n] = acc[i][j] + (bias"),
    ("gemm leaves out the last column of a tile", "for (int k = 0; k < BK; k++) {", "for (int k = 0; k < BK - 1; k++) {"),
    ("tensor cores without the first barrier", "wv[1] = ld((const uint4*)(wr + k0) + 1);\n        }\n        __syncthreads();", "wv[1] = ld((const uint4*)(wr + k0) + 1);\n        }"),
    ("tensor cores without the second barrier", "*(uint4*)&ws[row][k16 / 2 + 4 * h] = wv[h];\n        }\n        __syncthreads();", "*(uint4*)&ws[row][k16 / 2 + 4 * h] = wv[h];\n        }"),
    ("tensor cores swap two fragments", "a[e][1] = xs[e][r + 8][s + t];", "a[e][1] = xs[e][r][s + t + 4];"),
    ("tensor cores lose the rounding's rest", "b -= upper<TYPE>(v);", "b -= lower<TYPE>(v);"),
    ("tensor cores with the wrong stride of warps", "wn = (warp & 3) * 32;", "wn = (warp & 3) * 16;"),
], "Elements|Norm|Rope|MLP": [
    ("add one element short", "add(float* x, const float* y, long long n) { FOR_EACH(i, n)", "add(float* x, const float* y, long long n) { FOR_EACH(i, n - 1)"),
    ("softcap without the multiplication", "x[i] = cap * tanhf(x[i] / cap);", "x[i] = tanhf(x[i] / cap);"),
    ("exact GELU for the tanh form", "case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));", "case GELU_TANH: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));"),
    ("activation without the gate", "x[i] = y ? v * y[i] : v;", "x[i] = v;"),
    ("concat with the wrong stride", "b[t * m + j - n]", "b[t * n + j - n]"),
    ("norm forgets epsilon", "block_sum(s, red) / C + eps)", "block_sum(s, red) / C)"),
    ("norm forgets the bias", "if (b) v += b[i];", ""),
    ("rope turns the other way", "v[a] = u * c - w * s;\n        v[b] = w * c + u * s;", "v[a] = u * c + w * s;\n        v[b] = w * c - u * s;"),
    ("rope of the wrong position", "long long th = i / half, t = th / H, r = (at ? at[t] : t) * half + p;", "long long th = i / half, t = th / H, r = (at ? at[0] : t) * half + p;"),
    ("rope ignores the offset", "float* v = x + th * D + offset;", "float* v = x + th * D;"),
], "Attend|Latent": [
    ("keys of the block before", "return (float*)blocks[s[TABLE] + b] + base + ((long long)kv * size + pos - b * size) * KD;", "return (float*)blocks[s[TABLE] + max(b - 1, 0)] + base + ((long long)kv * size + pos - b * size) * KD;"),
    ("values with the keys' stride", "((long long)kv * size + pos - b * size) * VD;", "((long long)kv * size + pos - b * size) * KD;"),
    ("store writes every layer to the first", "long long base = (long long)(layer + s[LAYER]) * KVH * size * (KD + VD) + ", "long long base = (long long)s[LAYER] * KVH * size * (KD + VD) + "),
    ("flash sees one key too many", "key <= pos[i] && (window", "key <= pos[i] + 1 && (window"),
    ("flash sees one key too few of the window", "key > pos[i] - window)", "key > pos[i] - window + 1)"),
    ("flash starts the window a key late", "int from = window > 0 ? max(0, lo - window + 1) : 0;\n    int k0", "int from = window > 0 ? max(0, lo - window + 2) : 0;\n    int k0"),
    ("flash without the barrier before a chunk of keys", "if (c * CHUNK >= KD) break;\n            __syncthreads();", "if (c * CHUNK >= KD) break;"),
    ("flash without the barrier after a chunk of keys", "load_chunk(kv_tile, kp, c, KD, keys);\n            __syncthreads();", "load_chunk(kv_tile, kp, c, KD, keys);"),
    ("flash without the barrier before a chunk of values", "if (c * CHUNK >= VD) break;\n            __syncthreads();", "if (c * CHUNK >= VD) break;"),
    ("flash without the barrier after a chunk of values", "load_chunk(kv_tile, vp, c, VD, keys);\n            __syncthreads();", "load_chunk(kv_tile, vp, c, VD, keys);"),
    ("flash doesn't shrink the sum", "l[i] = l[i] * shrink + sum;", "l[i] = l[i] + sum;"),
    ("flash doesn't shrink the output", "acc[c][i][j] *= shrink;", "acc[c][i][j] *= 1.0f;"),
    ("flash takes the wrong key/value head", "kv * G + (first + r) % G;\n            x = q", "kv + (first + r) % G;\n            x = q"),
    ("flash forgets the sinks", "float sum = l[i] + (sinks ? expf(sinks[h] - m[i]) : 0.0f);", "float sum = l[i];"),
    ("flash mixes up columns", "int d = c * CHUNK + j / 4 * 4 * TX + 4 * tx + j % 4;", "int d = c * CHUNK + CN * tx + j;"),
    ("flash's queries are not scaled", "* KD + d] * scale;", "* KD + d];"),
    ("load_chunk past the end of a vector", "if (d + 1 < dim) v.y = p[1];", "v.y = p[1];"),
    ("join forgets the last part", "for (int z = 0; z < splits; z++) a = fmaf", "for (int z = 0; z < splits - 1; z++) a = fmaf"),
    ("join without the parts' maxima", "l += p[z * step + 1] * expf(p[z * step] - m);", "l += p[z * step + 1];"),
    ("weights without mask", "if (j > pos || (window && j <= pos - window)) {", "if (j > pos) {"),
    ("absorb with the wrong stride", "const float* up = W + (long long)h * (Nope + VD) * Rank;", "const float* up = W + (long long)h * Nope * Rank;"),
    ("expand reads the key part", "const float* up = W + ((long long)h * (Nope + VD) + Nope) * Rank;", "const float* up = W + (long long)h * (Nope + VD) * Rank;"),
], "MoE|Route": [
    ("route: the higher expert wins ties", "if (w > v || (w == v && b < at)) {", "if (w > v || (w == v && b > at)) {"),
    ("route without the barrier before the choice", "choice[e] = correction ? s + correction[e] : s;\n    }\n    __syncwarp();", "choice[e] = correction ? s + correction[e] : s;\n    }"),
    ("route without the barrier after a choice", "choice[at] = -INFINITY;\n        }\n        __syncwarp();", "choice[at] = -INFINITY;\n        }"),
    ("route: weights from the corrected scores", "total += score[at];", "total += choice[at];"),
    ("route: one group too many", "if (better >= top_groups)", "if (better > top_groups)"),
    ("sort_picks without its barrier", "count[e] = c;\n    }\n    __syncthreads();", "count[e] = c;\n    }"),
    ("experts read the wrong token", "x + (long long)(p / div) * K", "x + (long long)p * K"),
    ("moe_sum starts from nothing", "float a = add ? out[t * C + c] : 0.0f;", "float a = 0.0f;"),
], "Sample": [
    ("select_key without the barrier before counting", "bins[i] = 0;\n        __syncthreads();", "bins[i] = 0;"),
    ("select_key without the barrier after counting", "if (w) atomicAdd(&bins[key >> shift & 255], w);\n        }\n        __syncthreads();", "if (w) atomicAdd(&bins[key >> shift & 255], w);\n        }"),
    ("scan without its second barrier", "if (lane == 31) red[warp] = s;\n    __syncthreads();", "if (lane == 31) red[warp] = s;"),
    ("scan without its first barrier", "if (lane >= o) s += w;\n    }\n    __syncthreads();", "if (lane >= o) s += w;\n    }"),
    ("top-k keeps one more", "keep = k - above;", "keep = k - above + 1;"),
    ("top-p rounds down", "keep = (want - over + each - 1) / each;", "keep = (want - over) / each;"),
    ("greedy: the last of equal logits", "if (x[i] > best) {", "if (x[i] >= best) {"),
    ("greedy without its barrier", "ids[warp] = at;\n    }\n    __syncthreads();", "ids[warp] = at;\n    }"),
]}
ALL = "Linear|Fast|Embed|Elements|Norm|Rope|MLP|MoE|Route|Latent|Attend|Sample|Softmax"


def run(*args, **env):
    return subprocess.run(args, env={**os.environ, **env}, capture_output=True, text=True)


def check(done, what):
    if done.returncode:
        sys.exit(f"{what}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def attempt(test, lib, tests, order):
    """Why the tests fail in this order, or nothing."""
    try:
        done = subprocess.run([test, "-test.failfast", "-test.run", tests], env={**os.environ, "CUDA_DRIVER_LIB": lib, "CUDACPU_ORDER": order, "FORWARDPASS_GPU": "required"},
                              capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return f"{order}: it doesn't end"
    if done.returncode == 0:
        return ""
    failed = [l.split()[2] for l in done.stdout.splitlines() if l.startswith("--- FAIL")]
    return f"{order}: {failed[0] if failed else 'crash'}"


def main():
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as tmp:
        test, lib, cu = (os.path.join(tmp, n) for n in ("cuda.test", "libcudacpu.so", "kernels.cu"))
        check(run("go", "test", "-c", "-tags", "cuda", "-o", test, ".", CGO_CFLAGS=f"-O2 -I{include}"), "building the tests")
        os.chdir(here)
        caught, survived = 0, []
        for tests, name, old, new in [(ALL, "(unchanged)", "", "")] + [(t, *m) for t, ms in mutants.items() for m in ms]:
            if wanted and name not in wanted:
                continue
            if old and source.count(old) != 1:
                sys.exit(f"{name}: its text occurs {source.count(old)} times in kernels.cu")
            open(cu, "w").write(source.replace(old, new) if old else source)
            check(run("internal/standin/build.sh", lib, cu, os.path.join(cuda, "kernels.ptx"), include, HC_OBJECTS=tmp), name)
            begun = time.time()
            how = next(filter(None, (attempt(test, lib, t, order) for t in dict.fromkeys((tests, ALL)) for order in ORDERS)), "")
            if name == "(unchanged)":
                if how:
                    sys.exit(f"the tests fail without a change: {how}")
                continue
            if how:
                caught += 1
            else:
                survived.append(name)
            print(f"{'caught  ' if how else 'SURVIVED'} {name:55} {how} ({time.time() - begun:.0f} s)", flush=True)
        print(f"{caught} of {caught + len(survived)} mutants caught; survivors: {', '.join(survived) or 'none'}")


main()
