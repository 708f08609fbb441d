"""The official OpenAI client against a server of package serve: openai_client.py URL KEY PROMPT. What it got, as JSON, for the test
that started it to compare."""

import json
import sys

import openai

url, key, prompt = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)
out = {"version": openai.__version__}
model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model

plain = dict(model=model, prompt=prompt, max_tokens=20, temperature=0)
r = client.completions.create(**plain, logprobs=2)
out["text"] = r.choices[0].text
out["reason"] = r.choices[0].finish_reason
out["usage"] = r.usage.completion_tokens
out["logprobs"] = r.choices[0].logprobs.token_logprobs
assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
assert len(r.choices[0].logprobs.tokens) == len(r.choices[0].logprobs.top_logprobs) == r.usage.completion_tokens

chunks = list(client.completions.create(**plain, stream=True, stream_options={"include_usage": True}))
out["streamed"] = "".join(c.choices[0].text for c in chunks if c.choices)
assert chunks[-1].usage.completion_tokens == out["usage"] and not chunks[-1].choices
assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == out["reason"]

talk = dict(model=model, messages=[{"role": "user", "content": prompt}], max_completion_tokens=20, temperature=0)
r = client.chat.completions.create(**talk, logprobs=True, top_logprobs=2)
out["chat"] = r.choices[0].message.content
assert r.choices[0].message.role == "assistant"
assert len(r.choices[0].logprobs.content) == r.usage.completion_tokens
assert len(r.choices[0].logprobs.content[0].top_logprobs) == 2
chunks = list(client.chat.completions.create(**talk, stream=True))
assert chunks[0].choices[0].delta.role == "assistant"
out["chat_streamed"] = "".join(c.choices[0].delta.content or "" for c in chunks)

r = client.completions.create(model=model, prompt=prompt, n=3, max_tokens=6, temperature=1, seed=5)
out["samples"] = [c.text for c in r.choices]
assert [c.index for c in r.choices] == [0, 1, 2]
r = client.completions.create(model=model, prompt=prompt, max_tokens=40, temperature=1, seed=5, extra_body={"guided_regex": " (dog|cat)"})
out["guided"] = r.choices[0].text
schema = {"type": "object", "properties": {"animal": {"enum": ["dog", "cat"]}}, "required": ["animal"], "additionalProperties": False}
r = client.chat.completions.create(**talk | {"max_completion_tokens": 60}, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}})
out["json"] = json.loads(r.choices[0].message.content)


def refused(kind, call):
    try:
        call()
    except kind as e:
        return e
    raise AssertionError(f"want {kind}")


e = refused(openai.NotFoundError, lambda: client.completions.create(model="gpt-9", prompt="a"))
assert e.code == "model_not_found" and e.param == "model", e
e = refused(openai.BadRequestError, lambda: client.completions.create(model=model, prompt="a", max_tokens=10**6))
assert e.type == "invalid_request_error" and e.param == "max_tokens", e
refused(openai.BadRequestError, lambda: client.completions.create(model=model, prompt="a", temperature=-1))
refused(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=[]))
refused(openai.AuthenticationError, lambda: openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list())

with client.completions.create(model=model, prompt=prompt, max_tokens=400, stream=True, extra_body={"ignore_eos": True}) as stream:
    next(iter(stream))  # and leave
print(json.dumps(out))
