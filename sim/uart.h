// A host's side of a serial line: bytes to levels of rx, levels of tx to bytes; 8 data bits, no parity, one stop bit.
#pragma once

#include <cstdint>
#include <deque>

namespace adagp {

class Uart {
  public:
    bool rx = true;                // the level that the board sees
    std::deque<uint16_t> to_send;  // bytes; PAUSE + n: silence for the time of n + 1 bytes
    std::deque<uint8_t> received;
    uint64_t framing_errors = 0;   // bytes without a stop bit

    static constexpr uint16_t PAUSE = 256;

    explicit Uart(unsigned cycles_per_bit) : bit_(cycles_per_bit) {}

    bool idle() const { return to_send.empty() && !send_left_ && !receive_left_; }

    // A clock cycle, in which the board drives `tx`.
    void step(bool tx) {
        send();
        receive(tx);
    }

  private:
    static constexpr unsigned BITS = 10;  // start, data, stop
    uint64_t bit_, send_left_ = 0, receive_left_ = 0;
    unsigned frame_ = 0, got_ = 0;
    bool before_ = true;

    void send() {
        if (!send_left_) {
            rx = true;
            if (to_send.empty()) return;
            const unsigned next = to_send.front();
            to_send.pop_front();
            const bool pauses = next >= PAUSE;
            frame_ = pauses ? ~0u : next << 1 | 1u << (BITS - 1);
            send_left_ = BITS * bit_ * (pauses ? next - PAUSE + 1 : 1);
        }
        rx = frame_ & 1;
        if (--send_left_ % bit_ == 0) frame_ = frame_ >> 1 | 1u << 31;
    }

    // Samples in the middle of bits.
    void receive(bool tx) {
        if (!receive_left_) {
            if (before_ && !tx) receive_left_ = BITS * bit_ - bit_ / 2, got_ = 0;
            before_ = tx;
            return;
        }
        if (--receive_left_ % bit_ != 0) return;
        got_ = got_ >> 1 | (tx ? 1u << (BITS - 1) : 0);
        if (receive_left_) return;
        before_ = tx;
        if (got_ >> (BITS - 1) & 1)
            received.push_back(static_cast<uint8_t>(got_ >> 1));
        else
            framing_errors++;
    }
};

}  // namespace adagp
