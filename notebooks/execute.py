"""Executes one notebook on its kernel and reports each cell as a line of JSON on stdout.

Called by the Go program beside it with the notebook on stdin, and with the folder to run it in and the
seconds a cell may take. Outputs travel in the report, and Go puts them in their place.
"""
import asyncio
import json
import os
import sys
import time

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

real = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # whatever else prints goes to stderr


def tell(**event):
    print(json.dumps(event, ensure_ascii=False), file=real, flush=True)


async def main(nb, folder, timeout):
    client = NotebookClient(nb, timeout=timeout, kernel_name="gonb", resources={"metadata": {"path": folder}})
    start = time.monotonic()
    async with client.async_setup_kernel():
        tell(event="kernel", seconds=time.monotonic() - start)
        for i, cell in enumerate(nb.cells):
            if cell.cell_type != "code":
                continue
            tell(event="start", cell=i)
            start, problem = time.monotonic(), ""
            try:
                await client.async_execute_cell(cell, i, store_history=True)
            except CellExecutionError:
                problem = "failed"
            except CellTimeoutError:
                problem = f"took longer than {timeout} s"
            except DeadKernelError:
                problem = "the kernel died (out of memory?)"
            tell(event="end", cell=i, seconds=time.monotonic() - start, problem=problem,
                 outputs=cell.get("outputs", []), count=cell.get("execution_count"))
            if problem:
                return


try:
    asyncio.run(main(nbformat.reads(sys.stdin.read(), as_version=4), sys.argv[1], float(sys.argv[2])))
except (NoSuchKernel, RuntimeError, OSError) as e:
    tell(event="broken", problem=f"{type(e).__name__}: {e}")
    sys.exit(1)
except KeyboardInterrupt:
    sys.exit(130)
