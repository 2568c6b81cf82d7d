// Records which command each unit works on, and when. watch.vlt lists the signals that it looks at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "signals.h"

namespace adagp {

// Units by number: `UNITS` of native_types.py. A core's are FILL..STORE from its first one on.
enum Unit : uint64_t { BATCH, UPDATE, FILL, ARRAY, DRAIN, STORE, N_CORE = 4 };

// A unit's work on a command, in cycles begin..end - 1, `busy` of which it did something. Laid out as `EVENT` of
// native_types.py. `batch` counts those since recording began.
struct Event {
    uint64_t unit, command, dry, phase, batch, begin, end, busy;
};

// State that the events of all units share.
struct Log {
    std::vector<Event> events;
    uint64_t phase = 0, batch = 0;

    void add(Event event) {
        event.phase = phase;
        event.batch = batch;
        events.push_back(event);
    }
};

struct Job {
    uint64_t command = 0, dry = 0, since = 0;  // since: when the unit got to know of it
    bool operator==(const Job& other) const { return command == other.command && dry == other.dry; }
};

template <typename T>
const T* required(const VerilatedContext& context, const std::string& block, const char* name) {
    const T* signal = find_signal<T>(context, block, name);
    if (!signal) throw std::runtime_error("no recording: the design has no " + block + "." + name);
    return signal;
}

// A stream's handshake, or any two signals that are 1 together.
class Both {
  public:
    Both(const VerilatedContext& context, const std::string& block, const std::string& valid, const std::string& ready)
        : valid_(required<uint8_t>(context, block, valid.c_str())),
          ready_(required<uint8_t>(context, block, ready.c_str())) {}
    operator bool() const { return *valid_ && *ready_; }

  private:
    const uint8_t *valid_, *ready_;
};

// One unit's slices, each from its first to its last cycle of work on a command; they never overlap.
class Track {
  public:
    explicit Track(uint64_t unit) : unit_(unit) {}

    // The unit works on `job`. A new slice begins when the unit got to know of it, but after the one before.
    void work(Log& log, const Job& job, uint64_t begin, uint64_t cycle) {
        if (!open_ || !(job == job_)) {
            flush(log);
            open_ = true;
            job_ = job;
            event_ = {unit_, job.command, job.dry, 0, 0, std::max(begin, event_.end), 0, 0};
        }
        event_.busy++;
        event_.end = cycle + 1;
    }

    void flush(Log& log) {
        if (open_) log.add(event_);
        open_ = false;
    }

  private:
    uint64_t unit_;
    bool open_ = false;
    Job job_;
    Event event_{};
};

// A sequencer and its four engines; `prefix` is where they are ("block."), `first` the number of their fill.
class Core {
  public:
    Core(const VerilatedContext& context, const std::string& prefix, uint64_t first)
        : fill_(first), array_(first + 1), drain_(first + 2), unit_store_(first + 3),
          reset_(required<uint8_t>(context, prefix + "sequencer", "reset")),
          push_(context, prefix + "sequencer", "push", "push_ready"),
          engine_(required<uint8_t>(context, prefix + "sequencer", "engine")),
          index_(required<uint16_t>(context, prefix + "sequencer", "\\i__payload.index ")),
          dry_(required<uint8_t>(context, prefix + "sequencer", "\\i__payload.dry ")),
          to_fill_(context, prefix + "sequencer", "fill__valid", "fill__ready"),
          to_drain_(context, prefix + "sequencer", "drain__valid", "drain__ready"),
          to_store_(context, prefix + "sequencer", "store__valid", "store__ready"),
          to_landing_(context, prefix + "fill.requests", "o__valid", "o__ready"),
          landing_beat_(context, prefix + "fill", "client__beats__valid", "client__beats__ready"),
          to_array_(context, prefix + "compute.feeder", "gemm__valid", "gemm__ready"),
          active_(required<uint8_t>(context, prefix + "compute.feeder", "active")),
          drain_busy_(required<uint8_t>(context, prefix + "drain", port_name(context, prefix + "drain", "busy").c_str())),
          stored_(required<uint8_t>(context, prefix + "store", "main_done")),
          beat_(context, prefix + "store", "client__beats__valid", "client__beats__ready") {
        if (find_block(context, prefix + "compute.pool")) {
            to_others_.emplace_back(context, prefix + "compute.pool", "job__valid", "job__ready");
            tap_ = required<uint8_t>(context, prefix + "compute.pool", "taken");
        }
        if (find_block(context, prefix + "compute.pool.depthwise"))  // whose jobs are the pool unit's
            vectors_.emplace_back(context, prefix + "compute.pool.depthwise", "a__valid", "a__ready");
        for (const std::string part : {"compute.norm.scale", "compute.norm.tables"}) {
            if (!find_block(context, prefix + part)) continue;
            to_others_.emplace_back(context, prefix + part, "job__valid", "job__valid");
            vectors_.emplace_back(context, prefix + part, "a__valid", "a__ready");
        }
    }

    bool in_reset() const { return *reset_; }

    // End all work under way.
    void clear(Log& log) {
        flush(log);
        for (auto& queue : made_) queue.clear();
        landing_.clear();
        stores_.clear();
    }

    void flush(Log& log) {
        for (Track* track : {&fill_, &array_, &drain_}) track->flush(log);
    }

    // A cycle: the engines work on the jobs they had at its beginning, then take new ones.
    void look(Log& log, uint64_t cycle) {
        if (landing_beat_) fill_.work(log, filling_, filling_.since, cycle);
        if (*active_ || *tap_ || any(vectors_)) array_.work(log, computing_, cycle, cycle);
        if (*drain_busy_) drain_.work(log, draining_, cycle, cycle);
        if (beat_ && !stores_.empty()) stores_.back().busy++;
        if (*stored_ && !stores_.empty()) finish_store(log, cycle);

        if (to_landing_) take(landing_, filling_);
        if (to_fill_ && take(made_[0], asking_)) {
            asking_.since = cycle;
            landing_.push_back(asking_);
        }
        if (to_array_ || any(to_others_)) take(made_[1], computing_);
        if (to_drain_) take(made_[2], draining_);
        if (to_store_ && take(made_[3], storing_)) begin_store(cycle);
        if (push_ && *engine_ < N_CORE) made_[*engine_].push_back({*index_, *dry_, cycle});
    }

  private:
    static constexpr uint8_t NEVER = 0;

    Track fill_, array_, drain_;
    uint64_t unit_store_;
    const uint8_t* reset_;
    Both push_;
    const uint8_t* engine_;
    const uint16_t* index_;
    const uint8_t* dry_;
    Both to_fill_, to_drain_, to_store_, to_landing_, landing_beat_, to_array_;
    const uint8_t *active_, *drain_busy_, *stored_;
    Both beat_;
    std::vector<Both> to_others_;  // jobs of the pool unit and of batch norm's
    std::vector<Both> vectors_;    // vectors that units within these take
    const uint8_t* tap_ = &NEVER;

    std::deque<Job> made_[N_CORE];  // descriptors in the queues of the engines
    std::deque<Job> landing_;       // descriptors of fill whose beats aren't taken yet
    std::deque<Event> stores_;      // commands whose writes aren't all answered
    Job asking_, filling_, computing_, draining_, storing_;
    uint64_t store_end_ = 0;

    static bool any(const std::vector<Both>& signals) {
        return std::any_of(signals.begin(), signals.end(), [](const Both& both) { return bool(both); });
    }

    static bool take(std::deque<Job>& from, Job& to) {
        if (from.empty()) return false;
        to = from.front();
        from.pop_front();
        return true;
    }

    void begin_store(uint64_t cycle) {
        if (!stores_.empty() && stores_.back().command == storing_.command && stores_.back().dry == storing_.dry) return;
        stores_.push_back({unit_store_, storing_.command, storing_.dry, 0, 0, cycle, 0, 0});
    }

    void finish_store(Log& log, uint64_t cycle) {
        Event event = stores_.front();
        stores_.pop_front();
        event.begin = std::max(event.begin, store_end_);
        event.end = store_end_ = cycle + 1;
        log.add(event);
    }
};

class Recorder {
  public:
    // Record from the machine's next start on. Throws where the design isn't the accelerator.
    void begin(const VerilatedContext& context) {
        log_ = {};
        cores_.clear();
        cores_.emplace_back(context, "core.", FILL);
        if (find_block(context, "predictor.sequencer")) cores_.emplace_back(context, "predictor.", FILL + N_CORE);
        update_ = Track(UPDATE);
        to_update_.clear();
        to_update_.emplace_back(context, "update", "i__valid", "i__ready");
        update_busy_ = required<uint8_t>(context, "update", "busy");
        index_ = required<uint16_t>(context, "update", "\\i__payload.index ");
        dry_ = required<uint8_t>(context, "update", "\\i__payload.dry ");
        begin_ = required<uint8_t>(context, "control.fetch", "begin");
        batch_end_ = required<uint8_t>(context, "control.fetch", "batch_end");
        phase_ = required<uint8_t>(context, "control.fetch", "phase");
        state_ = ARMED;
    }

    // Stop recording; work under way isn't recorded.
    void end() { state_ = OFF; }

    const std::vector<Event>& events() const { return log_.events; }

    // The cycle whose signals have settled.
    void look(uint64_t cycle) {
        if (state_ != OFF) follow(cycle);
    }

  private:
    enum { OFF, ARMED, ON } state_ = OFF;
    Log log_;
    std::vector<Core> cores_;
    Track update_{UPDATE};
    std::vector<Both> to_update_;
    const uint8_t *update_busy_ = nullptr, *dry_ = nullptr;
    const uint16_t* index_ = nullptr;
    const uint8_t *begin_ = nullptr, *batch_end_ = nullptr, *phase_ = nullptr;
    Job updating_;
    uint64_t batch_begin_ = 0;

    void follow(uint64_t cycle) {
        if (cores_[0].in_reset()) {  // by a start, or by CLEAR
            for (Core& core : cores_) core.clear(log_);
            update_.flush(log_);
            state_ = ON;
            return;
        }
        if (state_ != ON) return;
        log_.phase = *phase_;
        for (Core& core : cores_) core.look(log_, cycle);
        if (*update_busy_) update_.work(log_, updating_, cycle, cycle);
        if (to_update_[0]) updating_ = {*index_, *dry_, cycle};
        if (*begin_) begin_batch(cycle);
        if (*batch_end_) end_batch(cycle);
    }

    void begin_batch(uint64_t cycle) {
        const bool torn = !log_.events.empty() && log_.events.back().batch == log_.batch;
        log_.batch += torn;  // the one before was never completed
        batch_begin_ = cycle;
    }

    void end_batch(uint64_t cycle) {
        for (Core& core : cores_) core.flush(log_);
        update_.flush(log_);
        log_.add({BATCH, 0, 0, 0, 0, batch_begin_, cycle + 1, cycle + 1 - batch_begin_});
        log_.batch++;
        batch_begin_ = cycle + 1;
    }
};

}  // namespace adagp
