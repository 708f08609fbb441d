"""What every script that makes golden values shares: running a model, watching its stages, writing files.

Names of the tensors in a golden .safetensors file, for a case (a prompt) of T tokens:

    <case>/ids             [T]        int64, the input
    <case>/hidden.0        [T, C]     the residual stream that enters layer 0: embeddings, with their scale and learned positions
    <case>/hidden.<i>      [T, C]     the residual stream after i layers, before the final norm
    <case>/final           [T, C]     after the final norm
    <case>/attention.<i>   [H, T, T]  attention weights of layer i, counted from 0
    <case>/router.<i>      [T, E]     router logits of layer i, where that layer is a mixture of experts
    <case>/logits          [T, V]
    <case>/greedy          [N]        int64, the tokens that greedy decoding adds to ids

All other tensors are float32, made by eager attention on one thread. The .json beside it says which script and versions made
it and holds what isn't a tensor.
"""
import copy
import json
import os

os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import numpy as np
import safetensors
import safetensors.numpy
import torch
import transformers

IGNORED = -100

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
torch.set_grad_enabled(False)

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")


def versions():
    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "numpy": np.__version__}


def load(path, **options):
    """The model at path in float32, with attention written out so that its weights can be seen."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", **options).eval()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model


def first(value):
    return value[0] if isinstance(value, (tuple, list)) else value


def parts(model):
    """The decoder layers and the final norm, whatever the family calls them."""
    base = model.base_model
    layers = next(getattr(base, n) for n in ("layers", "h") if hasattr(base, n))
    norm = next(getattr(base, n) for n in ("norm", "ln_f", "final_layer_norm", "final_layernorm") if hasattr(base, n))
    return layers, norm


def fresh(model):
    """A copy without memory of earlier calls: RoPE that grows with the text keeps its last frequencies."""
    return copy.deepcopy(model)


def stages(model, ids):
    """One forward pass over ids; every stage as an array, by the names above without the case."""
    model = fresh(model)
    layers, norm = parts(model)
    seen, hooks = {}, []

    def keep(name, tensor):
        array = tensor.detach().float().numpy()
        assert np.isfinite(array).all(), name
        seen[name] = np.ascontiguousarray(array)

    def entering(module, args, kwargs):
        keep("hidden.0", (args[0] if args else kwargs["hidden_states"])[0])

    def leaving(name):
        return lambda module, args, out: keep(name, first(out)[0])

    def routing(name):
        return lambda module, args, out: keep(name, first(out).reshape(len(ids), -1))

    hooks.append(layers[0].register_forward_pre_hook(entering, with_kwargs=True))
    for i, layer in enumerate(layers):
        hooks.append(layer.register_forward_hook(leaving(f"hidden.{i + 1}")))
        for module in layer.modules():
            if type(module).__name__.lower().endswith("topkrouter"):
                hooks.append(module.register_forward_hook(routing(f"router.{i}")))
    hooks.append(norm.register_forward_hook(leaving("final")))
    out = model(torch.tensor([ids]), use_cache=False, output_attentions=True)
    for i, weights in enumerate(out.attentions):
        keep(f"attention.{i}", weights[0])
    keep("logits", out.logits[0])
    for hook in hooks:
        hook.remove()
    return seen


def new_tokens(sequence, prompt, eos):
    """What was generated, up to and with the first eos."""
    tokens = [int(t) for t in sequence[len(prompt):]]
    for i, t in enumerate(tokens):
        if eos is not None and t == eos:
            return tokens[:i + 1]
    return tokens


def generate(model, ids, n, **options):
    model, eos = fresh(model), options.pop("eos_token_id", None)
    options.setdefault("do_sample", False)
    settings = transformers.GenerationConfig(max_new_tokens=n, eos_token_id=eos, pad_token_id=0 if eos is None else eos,
                                             return_dict_in_generate=True, output_scores=True, **options)
    model.generation_config = settings
    x = torch.tensor([ids])
    return model.generate(x, attention_mask=torch.ones_like(x), generation_config=settings)


def greedy(model, ids, n, eos=None, **options):
    """The tokens added, and the smallest lead that a chosen token had over the second best."""
    g = generate(model, ids, n, eos_token_id=eos, **options)
    leads = [float(top[0] - top[1]) for top in (s[0].topk(2).values for s in g.scores)]
    return new_tokens(g.sequences[0], ids, eos), round(min(leads), 6)


def beams(model, ids, n, eos, lengths=(0.0, 1.0, 2.0), early=(False, True, "never")):
    """Beam search with four beams, every pair of length penalty and early stopping; all four results, best first."""
    out = []
    for length in lengths:
        for stop in early:
            g = generate(model, ids, n, eos_token_id=eos, num_beams=4, num_return_sequences=4, length_penalty=length, early_stopping=stop)
            out.append({"num_beams": 4, "length_penalty": length, "early_stopping": stop, "max_new_tokens": n, "eos": eos,
                        "sequences": [new_tokens(s, ids, eos) for s in g.sequences],
                        "scores": [round(float(s), 6) for s in g.sequences_scores]})
    return out


def penalised(model, ids, n, eos=None):
    """Greedy decoding under a repetition penalty, a ban of repeated trigrams, and both."""
    settings = [{"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 3}, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3}]
    out = []
    for s in settings:
        more, lead = greedy(model, ids, n, eos, **s)
        out.append({**s, "max_new_tokens": n, "eos": eos, "smallest_lead": lead, "ids": more})
    return out


def losses(model, sequences, labels):
    """Mean cross-entropy over all labels that aren't ignored: as a right-padded batch, and sequence by sequence.

    labels[b][t] is the label of token t itself: position t is scored on labels[b][t+1].
    """
    longest = max(map(len, sequences))
    pad = [s + [0] * (longest - len(s)) for s in sequences]
    mask = [[1] * len(s) + [0] * (longest - len(s)) for s in sequences]
    want = torch.tensor([y + [IGNORED] * (longest - len(y)) for y in labels])
    logits = fresh(model)(torch.tensor(pad), attention_mask=torch.tensor(mask), use_cache=False).logits[:, :-1]

    def cross_entropy(logits, want, reduction):
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).double(), want.reshape(-1),
                                                 ignore_index=IGNORED, reduction=reduction)

    padded = float(cross_entropy(logits, want[:, 1:], "mean"))
    each, count = [], 0
    for s, y in zip(sequences, labels):
        one = fresh(model)(torch.tensor([s]), use_cache=False).logits[0, :-1]
        each.append(float(cross_entropy(one, torch.tensor(y[1:]), "sum")))
        count += sum(t != IGNORED for t in y[1:])
    return {"ids": sequences, "labels": labels, "ignored": IGNORED, "labels_counted": count, "padded_mean": round(padded, 7),
            "ragged_sums": [round(x, 6) for x in each], "ragged_mean": round(sum(each) / count, 7)}


def write(stem, tensors, facts):
    """stem.safetensors and stem.json; the same input gives the same bytes."""
    os.makedirs(os.path.dirname(stem), exist_ok=True)
    if tensors:
        arrays = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
        safetensors.numpy.save_file(arrays, stem + ".safetensors")
        os.chmod(stem + ".safetensors", 0o644)
    write_json(stem + ".json", facts)


def same(old, new, tolerance, roundings=0):
    """Stop at the first thing that differs between two makings of stem.safetensors and stem.json. Floats may differ by the
    tolerance, or by so many float32 roundings (2^-23) of the largest number of their vector, if that is more: where numbers
    reach thousands, one rounding alone is 5e-4, and another processor's kernels add in another order."""
    a, b = (safetensors.numpy.load_file(stem + ".safetensors") for stem in (old, new))
    assert a.keys() == b.keys(), f"{old}: tensors {sorted(a.keys() ^ b.keys())}"
    worst = 0.0
    for name in a:
        if a[name].dtype.kind in "iu" and not name.endswith("top.ids"):  # equal logits may change places there
            assert np.array_equal(a[name], b[name]), f"{old}: {name} differs"
        elif a[name].dtype.kind == "f":
            difference = np.abs(a[name].astype(np.float64) - b[name])
            largest = np.abs(a[name]).max(axis=-1, keepdims=True) if a[name].ndim else np.abs(a[name])
            assert (difference <= np.maximum(tolerance, roundings * 2.0**-23 * largest)).all(), f"{old}: {name} differs by {difference.max()}"
            worst = max(worst, float(difference.max()))
    with open(old + ".json", encoding="utf-8") as x, open(new + ".json", encoding="utf-8") as y:
        difference = unlike(json.load(x), json.load(y), tolerance)
    assert difference is None, f"{old}.json: {difference}"
    print(f"{os.path.basename(old):<22} as committed, largest difference {worst:.1e}", flush=True)


def unlike(a, b, tolerance, path=""):
    """Where two JSON values differ, floats by more than the tolerance; versions and leads apart."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((d for k in a if k not in ("versions", "smallest_lead") and (d := unlike(a[k], b[k], tolerance, f"{path}/{k}"))), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for i, (x, y) in enumerate(zip(a, b)) if (d := unlike(x, y, tolerance, f"{path}/{i}"))), None)
    if isinstance(a, float) and isinstance(b, float):
        return None if abs(a - b) <= 100 * tolerance else f"{path}: {a} and {b}"  # sums over a whole sequence
    return None if a == b else f"{path}: {a} and {b}"


def write_json(path, facts):
    with open(path, "w", encoding="utf-8") as f:
        f.write(pretty(facts) + "\n")


def pretty(value, indent=""):
    """JSON with lists of numbers on one line."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(k)}: {pretty(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        return "[\n" + ",\n".join(inner + pretty(v, inner) for v in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
