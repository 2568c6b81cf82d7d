// The two functions of LZ4 that Verilator's FST writer calls, so that waveforms need no lz4 package.
// The block format is LZ4's: greedy matches of at least four bytes found through a hash table.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace adagp_lz4 {

inline uint8_t* put_length(uint8_t* to, int length) {
    for (; length >= 255; length -= 255) *to++ = 255;
    *to++ = static_cast<uint8_t>(length);
    return to;
}

// Literals from..literals_end, then (if length > 0) a match of `length` bytes at distance `offset`.
inline uint8_t* put_sequence(uint8_t* to, const uint8_t* from, int literals, int offset, int length) {
    const int extra = length ? length - 4 : 0;
    *to++ = static_cast<uint8_t>((literals < 15 ? literals : 15) << 4 | (extra < 15 ? extra : 15));
    if (literals >= 15) to = put_length(to, literals - 15);
    std::memcpy(to, from, literals);
    to += literals;
    if (!length) return to;
    *to++ = static_cast<uint8_t>(offset);
    *to++ = static_cast<uint8_t>(offset >> 8);
    return extra >= 15 ? put_length(to, extra - 15) : to;
}

}  // namespace adagp_lz4

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* destination, int size, int) {
    constexpr int HASH_BITS = 14, MATCH_END = 5, MATCH_START = 12;  // the format's rules for a block's end
    std::vector<int> table(1 << HASH_BITS, -1);
    const uint8_t* from = reinterpret_cast<const uint8_t*>(source);
    uint8_t* to = reinterpret_cast<uint8_t*>(destination);
    int literals = 0;
    for (int at = 0; at < size - MATCH_START;) {
        uint32_t word;
        std::memcpy(&word, from + at, 4);
        int& entry = table[word * 2654435761u >> (32 - HASH_BITS)];
        const int candidate = entry;
        entry = at;
        if (candidate < 0 || at - candidate > 65535 || std::memcmp(from + candidate, from + at, 4)) {
            at++;
            continue;
        }
        int length = 4;
        while (at + length < size - MATCH_END && from[candidate + length] == from[at + length]) length++;
        to = adagp_lz4::put_sequence(to, from + literals, at - literals, at - candidate, length);
        at += length;
        literals = at;
    }
    to = adagp_lz4::put_sequence(to, from + literals, size - literals, 0, 0);
    return static_cast<int>(to - reinterpret_cast<uint8_t*>(destination));
}
