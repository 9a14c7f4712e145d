# Arm's MPS2 board with a Cortex-M4 (AN386): qemu-system-arm -M mps2-an386
CPU = -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16
