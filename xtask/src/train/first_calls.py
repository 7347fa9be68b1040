"""Run by gdb, with a program: writes which of the functions in $FUNCTIONS it calls to $CALLED.

Each line of $FUNCTIONS is an address in the program and a name. A function is noticed once, when it is first called.
gdb says with its exit code whether all of it went well, which it would not do by itself.
"""

import os
import traceback

import gdb

SETTINGS = [
    "set pagination off",
    "set confirm off",
    "set startup-with-shell off",
    "set auto-solib-add off",
    "set breakpoint always-inserted on",
    # Signals are the program's own business.
    "handle all nostop noprint pass",
    "handle SIGTRAP stop print nopass",
]


def notice():
    names = {}
    with open(os.environ["FUNCTIONS"]) as functions:
        for line in functions:
            address, name = line.split()
            names[int(address, 16)] = name
    for setting in SETTINGS:
        gdb.execute(setting, to_string=True)
    gdb.execute("starti", to_string=True)
    program = os.path.realpath(gdb.current_progspace().filename)
    mappings = gdb.execute("info proc mappings", to_string=True).splitlines()
    base = min(int(line.split()[0], 16) for line in mappings if line.strip().endswith(program))
    for address in names:
        gdb.Breakpoint(f"*{base + address}", internal=True, temporary=True)
    print(f"pid {gdb.selected_inferior().pid}", flush=True)
    with open(os.environ["CALLED"], "w") as called:
        while True:
            gdb.execute("continue", to_string=True)
            if not gdb.selected_inferior().pid:
                break
            name = names.get(int(gdb.parse_and_eval("$pc")) - base)
            if name is not None:
                called.write(f"{name}\n")
    return int(gdb.parse_and_eval("$_exitcode"))


try:
    code = notice()
except BaseException:
    traceback.print_exc()
    code = 1
gdb.execute(f"quit {code}")
