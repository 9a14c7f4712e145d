#!/bin/sh
# run.sh BOARD.elf PORT: the board in QEMU until Ctrl-C; PORT becomes a link to its UART, which is a pseudo-terminal.
set -eu
if [ -e "$2" ] && [ ! -L "$2" ]; then
    echo "$2 exists and is not a link; give another path: PORT=" >&2
    exit 1
fi
qemu-system-arm -M mps2-an386 -display none -monitor none -serial pty -kernel "$1" | {
    read -r _ _ _ _ terminal _ # char device redirected to TERMINAL (label serial0)
    ln -sfn "$terminal" "$2"
    echo "serving at $2"
    cat
}
