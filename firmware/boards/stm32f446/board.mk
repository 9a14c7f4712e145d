# ST's NUCLEO-F446RE
CPU = -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16
# 168 MHz; with double in software an addition or multiplication takes 95 instructions
CPU += -DBOARD_OPERATIONS_PER_S=1700000
