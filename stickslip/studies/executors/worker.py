"""A process that runs cells, one after another: `python -m stickslip.studies.executors.worker`, started by a driver.

It reads tasks from its input and writes replies to its output. What cells print goes to stderr. It ends with its
driver, however that ends.
"""

import contextlib
import ctypes
import faulthandler
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from stickslip.studies.executors import messages

_DEATH = 1
"""PR_SET_PDEATHSIG of Linux."""


def main() -> None:
    """Run tasks until the input ends."""
    driver = int(sys.argv[1])
    die_with(driver)
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # if memory runs out, the system is to end this process and not the driver
        Path("/proc/self/oom_score_adj").write_text("1000")
    hello = messages.receive(tasks)
    if hello is None:
        return
    sys.path[:] = hello["path"]
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        data = memoryview(messages.packed(message))
        with lock:
            while data:
                data = data[os.write(replies, data) :]

    _serve(tasks, send, hello)


def _serve(tasks: Any, send: Any, hello: dict[str, Any]) -> None:
    from stickslip import compilation
    from stickslip.studies import cell
    from stickslip.studies.execute import compiling, execute

    scratch, device = Path(hello["folder"]), hello["device"]
    cell.trust(hello["known"])
    send({"ready": os.getpid()})
    with compilation.quiet(), compiling(lambda begun: send({"compiling": begun})):
        while (task := messages.receive(tasks)) is not None:
            folder = scratch / task["hash"]
            shutil.rmtree(folder, ignore_errors=True)
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                send({"hash": task["hash"], "status": "full", "error": str(error)})
                continue
            send(execute(task, folder, device))


def die_with(driver: int) -> None:
    """Have this process killed when the one that started it ends, and end now if that is over already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(1)


if __name__ == "__main__":
    main()
