package main

// help is the documentation of the command.
const help = `Sets up JupyterLab with a Go kernel for this repository, and opens the course in it.

  go run ./notebooks                   set up (the first time), then open notebooks/00-tour.ipynb
  go run ./notebooks -setup            set up only
  go run ./notebooks -run [LESSON…]    execute lessons headless and save their outputs
  go run ./notebooks -check [LESSON…]  execute copies of lessons and compare with the saved outputs
  go run ./notebooks -model smollm2    bring SmolLM2-135M-Instruct (93 MB) for lesson 14
  go run ./notebooks -model OWNER/NAME bring a model from the Hugging Face hub
  go run ./notebooks -serve [MODEL]    answer the OpenAI protocol on this machine (-serve -help)

Other flags, before the lessons:

  -port N       the port of JupyterLab (else the first free one from 8888)
  -no-browser   print the address, open no browser
  -j N          lessons executed at once by -run and -check (2)
  -timeout D    the longest time that one cell may take in -run and -check (3m)

It needs Go, and Python 3.10 or newer with its venv module, on Linux, macOS or WSL. What it brings
(pinned JupyterLab, the GoNB kernel, a copy of ECharts when npm is there) lies in .forwardpass;
delete that folder to start again. Jupyter servers, settings and kernels of your own are untouched.

-model OWNER/NAME, or OWNER/NAME@REVISION for another branch, tag or commit than main, fetches the
configuration, the tokenizer and the safetensors weights to .forwardpass/models, where lessons and
-serve find it under that name. An interrupted download goes on where it stopped. HF_TOKEN is sent
for models that ask for an account, HF_ENDPOINT is another hub; without a network, or with
HF_HUB_OFFLINE=1, a copy from before is used.

A LESSON is a number (04), a name (04-attention) or a path. Without one, all lessons are meant, in
order. -run executes notebooks/*.ipynb and copies the outputs to the cells of notebooks/zh/*.ipynb
that hold the same code. A failed cell is named with lesson, cell and line, and the exit status is 1.

What -check compares. Outputs are equal when they are the same after these rules:

  - Streams are joined, since the kernel splits stdout as it likes. Numbers followed by a unit of
    time, speed or peak memory are ignored: ns µs ms s min, tok/s, req/s, it/s, B/s to GB/s,
    FLOP/s to TFLOP/s, "×", "x faster", "MB peak". So is a table's column whose heading names such
    a unit in brackets, as "time (ms)", and a chart whose axis or title does.
  - Whole numbers are compared exactly. Decimal numbers may differ by two units of the last digit
    printed, or by one in ten thousand; two numbers below 0.0001 in size count as equal, since that
    is where the rounding of one processor differs from another's.
  - A picture is compared by its size and alternative text, a live chart by its settings.
  - A cell with the tag "timing" has all its numbers ignored; one with the tag "varies" need only
    run. A cell with the tag "raises-exception" must fail, in both.
`
