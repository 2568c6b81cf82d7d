// The native driver of a board: clocks the Verilated accelerator with its host link, answers its memory port, and
// moves bytes over its serial line. Bound to Python by ctypes: board.py declares the functions below in the same order.

#include <memory>
#include <stdexcept>

#include "Vadagp.h"
#include "assertions.h"
#include "memory_port.h"
#include "uart.h"
#include "verilated.h"

namespace adagp {

constexpr unsigned RESET_CYCLES = 4;

// Registers in place of the memory controller's; they keep their values.
class Registers {
  public:
    template <typename Top>
    void step(Top& top) {
        if (top.dram_csr_awvalid && top.dram_csr_awready) write_at_ = top.dram_csr_awaddr, has_address_ = true;
        if (top.dram_csr_wvalid && top.dram_csr_wready) data_ = top.dram_csr_wdata, has_data_ = true;
        if (top.dram_csr_bvalid && top.dram_csr_bready) answers_ = false;
        if (has_address_ && has_data_) {
            words_[write_at_ / 4] = data_;
            has_address_ = has_data_ = false;
            answers_ = true;
        }
        if (top.dram_csr_rvalid && top.dram_csr_rready) reads_ = false;
        if (top.dram_csr_arvalid && top.dram_csr_arready) read_at_ = top.dram_csr_araddr, reads_ = true;
    }
    template <typename Top>
    void drive(Top& top) const {
        top.dram_csr_awready = !has_address_ && !answers_;
        top.dram_csr_wready = !has_data_ && !answers_;
        top.dram_csr_bvalid = answers_;
        top.dram_csr_bresp = top.dram_csr_rresp = OKAY;
        top.dram_csr_arready = !reads_;
        top.dram_csr_rvalid = reads_;
        top.dram_csr_rdata = words_[read_at_ / 4];
    }

  private:
    std::array<uint32_t, 1024> words_{};
    uint32_t write_at_ = 0, read_at_ = 0, data_ = 0;
    bool has_address_ = false, has_data_ = false, answers_ = false, reads_ = false;
};

class Board {
  public:
    uint64_t cycles = 0;
    std::string message;
    Uart uart;
    Dram dram;

    Board(uint8_t* memory, uint64_t size, const Settings& settings, unsigned cycles_per_bit)
        : uart(cycles_per_bit), dram(memory, size, settings) {
        top_.rx = 1;
        top_.rst = 1;
        for (unsigned i = 0; i < RESET_CYCLES; i++) step(false);
        top_.rst = 0;
        step(false);  // reset is registered: it ends a cycle late
        cycles = 0;
    }

    ~Board() {
        enter();
        top_.final();
    }

    // The runtime takes this board's context for the thread's, and no longer that of the last one opened.
    void enter() { Verilated::threadContextp(&context_); }

    void step(bool running = true) {
        top_.clk = 0;
        top_.eval();
        Master master;
        sample_memory(top_, master);
        if (running) dram.step(master), registers_.step(top_), uart.step(top_.tx);
        top_.clk = 1;
        top_.eval();
        cycles++;
        drive_memory(top_, dram.out);
        registers_.drive(top_);
        top_.rx = uart.rx;
        if (!dram.violation.empty()) throw std::runtime_error("AXI protocol violation: " + dram.violation);
    }

  private:
    VerilatedContext context_;
    Vadagp top_{&context_, "top"};
    Registers registers_;
};

}  // namespace adagp

using adagp::Board;
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Board* board_open(uint8_t* memory, uint64_t size, const adagp::Settings* settings, unsigned cycles_per_bit) {
    return new Board(memory, size, *settings, cycles_per_bit);
}
EXPORT void board_close(Board* b) { delete b; }

// Sends `count` bytes (or pauses, see uart.h), runs for `cycles` and takes up to `room` bytes that have come; their
// number, or -1 and the reason in the message.
EXPORT int board_exchange(
    Board* b, const uint16_t* bytes, unsigned count, uint64_t cycles, uint8_t* taken, unsigned room
) {
    b->enter();
    b->uart.to_send.insert(b->uart.to_send.end(), bytes, bytes + count);
    try {
        while (cycles--) b->step();
    } catch (const std::exception& error) {
        b->message = error.what();
        return -1;
    }
    auto& received = b->uart.received;
    const auto n = static_cast<unsigned>(std::min<size_t>(room, received.size()));
    std::copy_n(received.begin(), n, taken);
    received.erase(received.begin(), received.begin() + n);
    return static_cast<int>(n);
}
EXPORT unsigned board_waiting(const Board* b) { return static_cast<unsigned>(b->uart.to_send.size()); }
EXPORT uint64_t board_cycles(const Board* b) { return b->cycles; }
EXPORT const char* board_message(const Board* b) { return b->message.c_str(); }
