/* A board: bytes of its UART as packets to device.c, and back. Its machine is the simulation of a launch file; on a robot
 * put the functions of machine.h that read your sensors and drive your motors in its place. */
#include "../../device.h"
#include "../../host/simulated.h"
#include "board.h"
#include "clock.h"

struct serial serial;

static int64_t now_ns(void)
{
    static struct clock clock;
    return clock_ns(&clock, board_ticks(), board_ticks_per_us);
}

int main(void)
{
    static struct device device;
    static struct machine machine;
    static uint8_t packet[PACKET_SIZE];
    size_t size;
    board_begin();
    machine = simulated_machine(0, 1);
    while (!serial_has_begun(&serial)) {
        (void)now_ns(); /* it counts how often the counter begins anew */
        wait_for_interrupt();
    }
    device_init(&device, &machine, board_noise(), line_put, &serial.line);
    for (;;) {
        while ((size = serial_take(&serial, packet)) > 0)
            (void)device_receive(&device, now_ns(), packet, size);
        device_advance_to(&device, now_ns());
        if (serial_load(&serial))
            board_send();
        wait_for_interrupt();
    }
}
