# Raspberry Pi Pico
CPU = -mcpu=cortex-m0plus -mthumb
# 125 MHz, 360 instructions for an addition or multiplication
CPU += -DBOARD_OPERATIONS_PER_S=350000
# a step of this machine takes 130 000 instructions where double is software: 1 ms is too short for them
BOARD_FILE = trailer_pursuit_serial --set plant.step=0.005 --set plant.publish_every=2 --set run.duration=120
SOURCES = boards/rp2040/boot2.S
# the boot ROM starts no flash whose first 252 bytes have not their CRC behind them
define FINISH
$(CC) $(STRICT) boards/rp2040/boot2_crc.c -o $(BUILD)/boot2_crc
$(CROSS)objcopy -O binary -j .boot2 $@ $(BUILD)/boot2.bin
$(BUILD)/boot2_crc < $(BUILD)/boot2.bin > $(BUILD)/boot2_sealed.bin
$(CROSS)objcopy --update-section .boot2=$(BUILD)/boot2_sealed.bin $@
endef
