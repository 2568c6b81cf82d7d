// The native driver: clocks the Verilated accelerator, answers its AXI port, speaks AXI4-Lite to it.
// Bound to Python by ctypes: simulation.py declares the functions below in the same order.

#include <memory>
#include <stdexcept>

#include "Vadagp.h"
#include "assertions.h"
#include "memory_port.h"
#include "recorder.h"
#include "verilated.h"
#ifdef TRACE
#include "verilated_fst_c.h"
#include "window.h"
#endif
#ifdef COVERAGE
#include "Vadagp___024root.h"
#include "Vadagp__Syms.h"
#endif

namespace adagp {

constexpr unsigned LITE_LIMIT = 1000;  // cycles an AXI4-Lite transfer may take
constexpr unsigned RESET_CYCLES = 4;

class Simulation {
  public:
    uint64_t cycles = 0;
    std::string message;
    Dram dram;

    Simulation(uint8_t* memory, uint64_t size, const Settings& settings) : dram(memory, size, settings) {
#ifdef COVERAGE
        std::fill(std::begin(counts()), std::end(counts()), 0);
#endif
        hold_reset(RESET_CYCLES);
    }

    ~Simulation() {
        enter();
        top_.final();
    }

    // The runtime takes this simulation's context for the thread's, and no longer that of the last one opened.
    void enter() { Verilated::threadContextp(&context_); }

#ifdef TRACE
    void open_trace(const char* path) {
        context_.traceEverOn(true);
        top_.trace(&trace_, 99);
        trace_.open(path);
        tracing_ = true;
    }
    void trace_cycles(uint64_t from, uint64_t to) { window_.cycles(from, to); }
    void trace_commands(uint64_t first, uint64_t last, uint64_t skip) { window_.commands(context_, first, last, skip); }
#endif

#ifdef COVERAGE
    decltype(Vadagp__Syms::__Vcoverage)& counts() { return top_.rootp->vlSymsp->__Vcoverage; }  // by point
#endif

    void record(bool on) { on ? recorder_.begin(context_) : recorder_.end(); }
    const std::vector<Event>& events() const { return recorder_.events(); }

    void step() {
        clock();
        cycles++;
        dram.step(master_);
        drive(dram.out);
        if (!dram.violation.empty()) throw std::runtime_error("AXI protocol violation: " + dram.violation);
    }

    // Accelerator and memory are reset for `count` cycles, and forget what they were doing.
    void reset(uint64_t count) {
        dram.reset();
        drive(dram.out);
        hold_reset(count);
        cycles += count + 1;
    }

    // Steps until the interrupt or for `count` cycles; true at the interrupt.
    bool run(uint64_t count) {
        for (; !top_.irq && count; count--) step();
        return top_.irq;
    }

    unsigned write(uint32_t offset, uint32_t value) {
        top_.s_axil_awaddr = offset;
        top_.s_axil_wdata = value;
        top_.s_axil_wstrb = 0xf;
        top_.s_axil_awvalid = top_.s_axil_wvalid = top_.s_axil_bready = 1;
        for (unsigned i = 0; i < LITE_LIMIT; i++) {
            step();
            if (lite_.awready) top_.s_axil_awvalid = 0;
            if (lite_.wready) top_.s_axil_wvalid = 0;
            if (!lite_.bvalid) continue;
            top_.s_axil_bready = 0;
            return lite_.bresp;
        }
        throw std::runtime_error("no answer to a register write");
    }

    unsigned read(uint32_t offset, uint32_t& value) {
        top_.s_axil_araddr = offset;
        top_.s_axil_arvalid = top_.s_axil_rready = 1;
        for (unsigned i = 0; i < LITE_LIMIT; i++) {
            step();
            if (lite_.arready) top_.s_axil_arvalid = 0;
            if (!lite_.rvalid) continue;
            top_.s_axil_rready = 0;
            value = lite_.rdata;
            return lite_.rresp;
        }
        throw std::runtime_error("no answer to a register read");
    }

  private:
    VerilatedContext context_;
    Vadagp top_{&context_, "top"};
    Recorder recorder_;
    Master master_;  // what the accelerator drove before the last edge
    struct {
        bool awready, wready, bvalid, arready, rvalid;
        uint8_t bresp, rresp;
        uint32_t rdata;
    } lite_{};
#ifdef TRACE
    VerilatedFstC trace_;
    Window window_;
    bool tracing_ = false, open_ = false;
#endif

    void hold_reset(uint64_t count) {
        top_.rst = 1;
        for (uint64_t i = 0; i < count; i++) clock();
        top_.rst = 0;
        clock();  // reset is registered: it ends a cycle late
        drive(dram.out);
    }

    // One cycle: let the inputs settle, note what the accelerator drives, raise the clock.
    void clock() {
        top_.clk = 0;
        top_.eval();
        sample();
        recorder_.look(cycles);
        dump(0);
        top_.clk = 1;
        top_.eval();
        dump(1);
    }

    void dump([[maybe_unused]] unsigned half) {
#ifdef TRACE
        if (half == 0) open_ = tracing_ && window_.open(cycles);
        if (open_) trace_.dump(2 * cycles + half);
#endif
    }

    void sample() {
        sample_memory(top_, master_);
        lite_ = {top_.s_axil_awready != 0, top_.s_axil_wready != 0, top_.s_axil_bvalid != 0,
                 top_.s_axil_arready != 0, top_.s_axil_rvalid != 0, top_.s_axil_bresp, top_.s_axil_rresp,
                 top_.s_axil_rdata};
    }

    void drive(const Slave& s) { drive_memory(top_, s); }
};

// Runs `body` of a simulation; -1 and the reason in `message` where it throws.
template <typename Body>
int guarded(Simulation* simulation, Body body) {
    simulation->enter();
    try {
        return static_cast<int>(body());
    } catch (const std::exception& error) {
        simulation->message = error.what();
        return -1;
    }
}

}  // namespace adagp

using adagp::guarded;
using adagp::Simulation;
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Simulation* adagp_open(uint8_t* memory, uint64_t size, const adagp::Settings* settings) {
    try {
        return new Simulation(memory, size, *settings);
    } catch (const std::exception&) {
        return nullptr;  // an assertion failed in reset
    }
}
EXPORT void adagp_close(Simulation* s) { delete s; }
#ifdef TRACE
EXPORT int adagp_open_trace(Simulation* s, const char* path) {
    return guarded(s, [&] { return s->open_trace(path), 0; });
}
EXPORT int adagp_trace_cycles(Simulation* s, uint64_t from, uint64_t to) {
    return guarded(s, [&] { return s->trace_cycles(from, to), 0; });
}
EXPORT int adagp_trace_commands(Simulation* s, uint64_t first, uint64_t last, uint64_t skip) {
    return guarded(s, [&] { return s->trace_commands(first, last, skip), 0; });
}
#endif
#ifdef COVERAGE
EXPORT const uint32_t* adagp_coverage(Simulation* s) { return s->counts(); }
#endif
EXPORT int adagp_run(Simulation* s, uint64_t count) {
    return guarded(s, [&] { return s->run(count); });
}
EXPORT int adagp_reset(Simulation* s, uint64_t count) {
    return guarded(s, [&] { return s->reset(count), 0; });
}
EXPORT void adagp_log(Simulation* s, adagp::Passage* entries, uint64_t room) { s->dram.log(entries, room); }
EXPORT void adagp_inject(Simulation* s, const adagp::Fault* fault) { s->dram.inject(*fault); }
EXPORT int adagp_record(Simulation* s, int on) {
    return guarded(s, [&] { return s->record(on), 0; });
}
EXPORT uint64_t adagp_events(const Simulation* s, const adagp::Event** events) {
    *events = s->events().data();
    return s->events().size();
}
EXPORT int adagp_write(Simulation* s, uint32_t offset, uint32_t value) {
    return guarded(s, [&] { return s->write(offset, value); });
}
EXPORT int adagp_read(Simulation* s, uint32_t offset, uint32_t* value) {
    return guarded(s, [&] { return s->read(offset, *value); });
}
EXPORT uint64_t adagp_cycles(const Simulation* s) { return s->cycles; }
EXPORT const char* adagp_message(const Simulation* s) { return s->message.c_str(); }
EXPORT void adagp_totals(const Simulation* s, adagp::Totals* totals) { *totals = s->dram.totals; }
