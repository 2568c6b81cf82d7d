// The memory behind the accelerator's AXI4 port: a DRAM part's timing, random stalls, faults, totals.
//
// One data bus serves read and write bursts, one at a time: a burst occupies it for every granule it
// touches, after a turnaround where the direction changes and outside refreshes. A read is served
// `latency` after its acceptance at the earliest; a write once all its beats have come, and it is
// answered `write_latency` after they have crossed the bus. Reads are answered in order, writes too, and
// neither waits for the other. A write takes effect when its answer is taken; a read takes the bytes of its
// acceptance. AXI promises no more: a byte that changes between a read's acceptance and its data reads as GARBAGE.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace adagp {

constexpr unsigned BEAT_BYTES = PORT_WIDTH / 8;
constexpr unsigned MAX_BURST = 256;
constexpr uint64_t PAGE = 4096;
constexpr uint8_t GARBAGE = 0xa5;  // a byte with an undefined value
constexpr uint64_t ANY = ~uint64_t{0};

enum Response : uint8_t { OKAY = 0, SLVERR = 2, DECERR = 3 };

// Times are in 1/65536 of a cycle. Laid out as `Settings` of native_types.py.
constexpr unsigned TIME_BITS = 16;
struct Settings {
    uint64_t granule_bytes, granule_time, latency, refresh_interval, refresh, turnaround;
    uint64_t max_outstanding;  // bursts in each direction
    uint64_t write_latency;
    uint64_t stall;            // chance per cycle and channel, of 65536
    uint64_t seed;
};

// Bursts of one direction that fail: the nth (from 0; -1: any) if it touches start <= address < end. Of a read only
// the given beat, modulo the burst's length, fails (-1: all).
struct Fault {
    uint64_t write, response, nth, start, end, beat;
};

struct Totals {
    uint64_t read_bytes, write_bytes, read_beats, write_beats, read_bursts, write_bursts;
};

// A burst as it passes through the memory; times are in cycles. Laid out as `BURST` of native_types.py.
struct Passage {
    uint64_t write, id, addr, beats, response;
    uint64_t offered, accepted, first, last;  // first and last beat of its data, or its answer, taken; 0: not yet
    uint64_t failed;                          // when its first failing beat, or its answer, was taken
};

struct Address {
    uint32_t addr = 0;
    uint8_t id = 0, len = 0, size = 0, burst = 0;
    bool operator==(const Address&) const = default;
};

using Data = std::array<uint8_t, BEAT_BYTES>;

struct Beat {
    Data data{};
    uint32_t strobe = 0;
    bool last = false;
    bool operator==(const Beat&) const = default;
};

// Signals that the accelerator drives in a cycle, and those that the memory drives in the next.
struct Master {
    bool arvalid = false, awvalid = false, wvalid = false, rready = false, bready = false;
    Address ar, aw;
    Beat w;
};
struct Slave {
    bool arready = false, awready = false, wready = false, rvalid = false, rlast = false, bvalid = false;
    uint8_t rid = 0, rresp = 0, bid = 0, bresp = 0;
    Data rdata{};
};

class Dram {
  public:
    Slave out;
    Totals totals{};
    std::string violation;  // the accelerator's first violation of the AXI protocol, or empty

    Dram(uint8_t* memory, uint64_t size, const Settings& settings)
        : memory_(memory), size_(size), set_(settings),
          beat_time_(settings.granule_time * BEAT_BYTES / settings.granule_bytes),
          next_refresh_(settings.refresh_interval), random_(settings.seed * 2 + 1) {}

    // Forget all bursts under way.
    void reset() {
        for (auto* queue : queues()) queue->clear();
        beats_.clear();
        looked_.clear();
        moved_ = 0;
        before_ = {};
        ready_ = {};
        out = {};
    }

    // Let bursts fail, counted from now on.
    void inject(Fault fault) {
        if (fault.nth != ANY) fault.nth += fault.write ? totals.write_bursts : totals.read_bursts;
        faults_.push_back(fault);
    }

    // Note bursts accepted from now on, `room` of them.
    void log(Passage* entries, uint64_t room) {
        for (auto* queue : queues())
            for (Burst& burst : *queue) burst.passage = nullptr;
        log_ = entries, log_end_ = entries + room;
    }

    // A clock edge that ends a cycle in which the accelerator drove `in` and the memory `out`.
    void step(const Master& in) {
        now_ += uint64_t{1} << TIME_BITS;
        check(in);
        if (in.arvalid && out.arready) look(reads_.emplace_back(accept(in.ar, false, totals.read_bursts++)));
        if (in.awvalid && out.awready) writes_.push_back(accept(in.aw, true, totals.write_bursts++));
        if (in.wvalid && out.wready) beats_.push_back(in.w);
        if (out.rvalid && in.rready) take_read();
        if (out.bvalid && in.bready) take_answer();
        serve();
        drive();
        before_ = in;
    }

  private:
    struct Burst {
        uint64_t addr, start;  // start: of acceptance, then of its transfer on the data bus
        unsigned beats, sent;
        uint8_t id, response;
        uint64_t bad;  // the beat that fails with this response; -1: all
        Passage* passage;  // its record, or null
    };

    uint8_t* memory_;
    uint64_t size_;
    Settings set_;
    std::vector<Fault> faults_;
    uint64_t beat_time_, next_refresh_, random_;
    uint64_t now_ = 0, bus_free_ = 0;
    bool writing_ = false;
    uint64_t in_a_row_ = 0;
    std::deque<Burst> reads_, read_data_, writes_, answers_;  // accepted, on the bus or later
    std::deque<Beat> beats_;   // of writes not answered; the first `moved_` of them have crossed the data bus
    std::deque<Data> looked_;  // bytes that unanswered reads saw
    uint64_t moved_ = 0;
    Passage *log_ = nullptr, *log_end_ = nullptr;
    uint64_t ar_offered_ = 0, aw_offered_ = 0;
    Master before_;  // a cycle ago, and whether the memory took it
    struct {
        bool ar = true, aw = true, w = true;
    } ready_;

    bool stall() {
        if (!set_.stall) return false;
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return (random_ >> 20 & 0xffff) < set_.stall;
    }

    std::array<std::deque<Burst>*, 4> queues() { return {&reads_, &read_data_, &writes_, &answers_}; }

    uint64_t cycle() const { return now_ >> TIME_BITS; }

    void violate(const char* message) {
        if (violation.empty()) violation = message;
    }

    void check(const Master& in) {
        const bool ar_waits = before_.arvalid && !ready_.ar, aw_waits = before_.awvalid && !ready_.aw;
        const bool w_waits = before_.wvalid && !ready_.w;
        if (ar_waits && !(in.arvalid && in.ar == before_.ar)) violate("AR changed while waiting");
        if (aw_waits && !(in.awvalid && in.aw == before_.aw)) violate("AW changed while waiting");
        if (w_waits && !(in.wvalid && in.w == before_.w)) violate("W changed while waiting");
        if (in.arvalid && !ar_waits) ar_offered_ = cycle();
        if (in.awvalid && !aw_waits) aw_offered_ = cycle();
        ready_ = {out.arready, out.awready, out.wready};
    }
    Burst accept(const Address& a, bool write, uint64_t nth) {
        const unsigned beats = a.len + 1u;
        const uint64_t bytes = uint64_t{beats} * BEAT_BYTES, end = a.addr + bytes;
        if ((1u << a.size) != BEAT_BYTES) violate("burst with beats narrower than the port");
        if (a.burst != 1) violate("burst that isn't INCR");
        if (a.addr % BEAT_BYTES) violate("burst that doesn't start at a beat");
        if (a.addr / PAGE != (end - 1) / PAGE) violate("burst across a 4 KiB page");
        uint8_t response = end > size_ ? DECERR : OKAY;
        uint64_t bad = ANY;
        for (const Fault& f : faults_)
            if (f.write == write && (f.nth == ANY || f.nth == nth) && a.addr < f.end && f.start < end) {
                response = static_cast<uint8_t>(f.response);
                if (end <= size_ && f.beat != ANY) bad = f.beat % beats;
            }
        Passage* passage = log_ == log_end_ ? nullptr : log_++;
        if (passage)
            *passage = {write, a.id, a.addr, beats, response, write ? aw_offered_ : ar_offered_, cycle(), 0, 0, 0};
        return {a.addr, now_, beats, 0, a.id, response, bad, passage};
    }

    static uint8_t response(const Burst& burst, unsigned beat) {
        return burst.bad == ANY || burst.bad == beat ? burst.response : uint8_t{OKAY};
    }

    void look(const Burst& burst) {
        for (unsigned i = 0; i < burst.beats; i++) {
            Data& data = looked_.emplace_back();
            if (response(burst, i) == OKAY) std::memcpy(data.data(), at(burst, i), BEAT_BYTES);
        }
    }

    void take_read() {
        Burst& burst = read_data_.front();
        totals.read_beats++;
        totals.read_bytes += BEAT_BYTES;
        looked_.pop_front();
        if (burst.passage) {
            if (burst.sent == 0) burst.passage->first = cycle();
            if (response(burst, burst.sent) != OKAY && !burst.passage->failed) burst.passage->failed = cycle();
            if (burst.sent + 1 == burst.beats) burst.passage->last = cycle();
        }
        if (++burst.sent == burst.beats) read_data_.pop_front();
        out.rvalid = false;
    }

    void take_answer() {
        const Burst& burst = answers_.front();
        for (unsigned i = 0; i < burst.beats; i++, beats_.pop_front())
            if (burst.response == OKAY) store(beats_.front(), at(burst, i));
        if (burst.passage) burst.passage->first = burst.passage->last = cycle();
        if (burst.passage && burst.response != OKAY) burst.passage->failed = cycle();
        moved_ -= burst.beats;
        answers_.pop_front();
        out.bvalid = false;
    }

    uint8_t* at(const Burst& burst, unsigned beat) { return memory_ + burst.addr + uint64_t{beat} * BEAT_BYTES; }

    void store(const Beat& beat, uint8_t* to) {
        for (unsigned byte = 0; byte < BEAT_BYTES; byte++)
            if (beat.strobe >> byte & 1) to[byte] = beat.data[byte];
    }

    // Give the data bus to waiting bursts until it is busy beyond this cycle.
    void serve() {
        while (bus_free_ < now_ + (uint64_t{1} << TIME_BITS)) {
            const bool read = !reads_.empty() && reads_.front().start + set_.latency <= now_;
            const bool write = !writes_.empty() && beats_.size() - moved_ >= writes_.front().beats;
            if (!read && !write) return;
            const bool enough = in_a_row_ >= set_.max_outstanding;
            const bool choice = read && write ? writing_ != enough : write;
            transfer(choice ? writes_ : reads_, choice);
        }
    }

    void transfer(std::deque<Burst>& queue, bool write) {
        Burst burst = queue.front();
        queue.pop_front();
        in_a_row_ = write == writing_ ? in_a_row_ + 1 : 1;
        burst.start = std::max(now_, bus_free_ + (write == writing_ ? 0 : set_.turnaround));
        writing_ = write;
        for (; set_.refresh_interval && next_refresh_ <= burst.start; next_refresh_ += set_.refresh_interval) {
            bus_free_ = std::max(bus_free_, next_refresh_) + set_.refresh;
            burst.start = std::max(burst.start, bus_free_);
        }
        const uint64_t first = burst.addr / set_.granule_bytes;
        const uint64_t last = (burst.addr + burst.beats * BEAT_BYTES - 1) / set_.granule_bytes;
        bus_free_ = burst.start + (last - first + 1) * set_.granule_time;
        if (write) {
            move(burst);
            burst.start = bus_free_ + set_.write_latency;
            answers_.push_back(burst);
        } else {
            read_data_.push_back(burst);
        }
    }

    void move(const Burst& burst) {
        for (unsigned i = 1; i <= burst.beats; i++) {
            const Beat& beat = beats_[moved_++];
            if (beat.last != (i == burst.beats)) violate("WLAST not at the end of its burst");
            totals.write_beats++;
            totals.write_bytes += __builtin_popcount(beat.strobe);
        }
    }

    void drive() {
        out.arready = reads_.size() + read_data_.size() < set_.max_outstanding && !stall();
        out.awready = writes_.size() + answers_.size() < set_.max_outstanding && !stall();
        out.wready = beats_.size() - moved_ < set_.max_outstanding * MAX_BURST && !stall();
        if (!out.rvalid && !read_data_.empty()) {
            const Burst& burst = read_data_.front();
            const bool landed = burst.start + burst.sent * beat_time_ <= now_;
            if (landed && !stall()) offer(burst);
        }
        if (!out.bvalid && !answers_.empty() && answers_.front().start <= now_ && !stall()) {
            out.bvalid = true;
            out.bid = answers_.front().id;
            out.bresp = answers_.front().response;
        }
    }

    void offer(const Burst& burst) {
        out.rvalid = true;
        out.rid = burst.id;
        out.rresp = response(burst, burst.sent);
        out.rlast = burst.sent + 1 == burst.beats;
        out.rdata = looked_.front();
        if (out.rresp != OKAY) return out.rdata.fill(GARBAGE);
        const uint8_t* now = at(burst, burst.sent);
        if (std::memcmp(out.rdata.data(), now, BEAT_BYTES) == 0) return;
        for (unsigned byte = 0; byte < BEAT_BYTES; byte++)
            if (out.rdata[byte] != now[byte]) out.rdata[byte] = GARBAGE;
    }
};

}  // namespace adagp
