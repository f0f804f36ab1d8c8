// SPDX-License-Identifier: BSL-1.0
/// @file
/// gzip by zlib, and base64.

#include "report/pack.hpp"

#include <zlib.h>

#include <cstddef>
#include <new>

namespace echo::report {
namespace {

std::string compressed(std::string_view text) {
    constexpr int gzip_window = 15 + 16; // 16 asks zlib for gzip's header
    z_stream stream = {};
    if (deflateInit2(&stream, 6, Z_DEFLATED, gzip_window, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::bad_alloc();
    std::string made(std::size_t{1} << 16, '\0');
    std::size_t done = 0;
    int state = Z_OK;
    while (state != Z_STREAM_END) {
        if (stream.avail_in == 0 && !text.empty()) { // zlib counts in 32 bits
            const auto part = text.substr(0, std::size_t{1} << 30);
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
            stream.avail_in = static_cast<uInt>(part.size());
            text.remove_prefix(part.size());
        }
        if (done == made.size()) made.resize(2 * made.size());
        const std::size_t room = std::min(made.size() - done, std::size_t{1} << 30);
        stream.next_out = reinterpret_cast<Bytef*>(made.data() + done);
        stream.avail_out = static_cast<uInt>(room);
        state = deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
        done += room - stream.avail_out;
    }
    deflateEnd(&stream);
    made.resize(done);
    return made;
}

std::string base64(std::string_view bytes) {
    constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string made;
    made.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k)
            group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (std::size_t k = 0; k < 4; ++k)
            made += i + k > bytes.size() ? '=' : digits[group >> (18 - 6 * k) & 63];
    }
    return made;
}

} // namespace

std::string pack(std::string_view text) { return base64(compressed(text)); }

} // namespace echo::report
