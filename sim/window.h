// Window of cycles in which waveforms are written: given by number, or by the commands executed in them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "signals.h"

namespace adagp {

class Window {
  public:
    // Cycles from..to - 1.
    void cycles(uint64_t from, uint64_t to) {
        from_ = from;
        to_ = to;
    }

    // Once, from the moment when command `first` is the next until first..last are complete,
    // after `skip` batches in which that has happened. Throws where the design isn't the accelerator.
    void commands(const VerilatedContext& context, uint64_t first, uint64_t last, uint64_t skip) {
        first_ = first;
        last_ = last;
        skip_ = skip;
        given_ = find<uint64_t>(context, "issue", "given");
        completed_ = find<uint64_t>(context, "issue", "completed");
        enable_ = find<uint8_t>(context, "fetch.prefetch", "enable");
        index_ = find<uint16_t>(context, "fetch.prefetch", "\\commands__payload.index ");
    }

    // True if the cycle, whose signals have settled, is inside.
    bool open(uint64_t cycle) {
        if (index_) follow(cycle);
        return from_ <= cycle && cycle < to_;
    }

  private:
    enum { BEFORE, INSIDE, AFTER } place_ = BEFORE;
    uint64_t from_ = 0, to_ = 0;
    uint64_t first_ = 0, last_ = 0, skip_ = 0;
    static constexpr uint64_t KINDS[] = {0xffff, 0xffffu << 16, 0xffffull << 32};  // queues: main, update, predictor
    uint64_t before_ = 0, due_ = 0;  // commands of each kind given, to be complete
    const uint64_t *given_ = nullptr, *completed_ = nullptr;
    const uint16_t* index_ = nullptr;
    const uint8_t* enable_ = nullptr;

    template <typename T>
    static const T* find(const VerilatedContext& context, const std::string& block, const char* name) {
        const T* signal = find_signal<T>(context, "control." + block, name);
        if (!signal) throw std::runtime_error("no waveforms of commands: the design has no " + block + "." + name);
        return signal;
    }

    void follow(uint64_t cycle) {
        const bool next = first_ <= *index_ && *index_ <= last_;
        if (place_ == BEFORE && next && *enable_) {
            place_ = INSIDE;
            before_ = *given_;
            if (skip_ == 0) cycles(cycle, ~uint64_t{0});
        }
        if (place_ == INSIDE && !next) {
            place_ = AFTER;
            due_ = *given_;  // commands of a kind are completed in order, so those before them too
            for (uint64_t kind : KINDS)
                if ((due_ & kind) == (before_ & kind)) due_ &= ~kind;
        }
        bool done = place_ == AFTER;
        for (uint64_t kind : KINDS) done = done && (*completed_ & kind) >= (due_ & kind);
        if (done) {
            place_ = BEFORE;
            if (skip_) {
                skip_--;
            } else {
                to_ = cycle + 1;
                index_ = nullptr;  // once is enough
            }
        }
    }
};

}  // namespace adagp
