// SPDX-License-Identifier: BSL-1.0
/// @file
/// Streams of bytes for a parser: a text in memory, a file, standard input, a compressed file. They throw `echo::error` when the file
/// cannot be read or its compression is broken, so that a damaged file never looks like a short one; and when it is
/// larger than anybody meant it to be, so that a small file cannot fill the memory.
#pragma once

#include <echo/error.hpp>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>

namespace echo::format {

/// A text in memory, which must outlive it.
class memory_source : public std::streambuf {
public:
    explicit memory_source(std::string_view text) {
        // std::streambuf wants mutable bytes but a get area is only read.
        char* const first = const_cast<char*>(text.data());
        setg(first, first, first + text.size());
    }
};

/// How much may be read of a file.
struct size_limit {
    std::uint64_t bytes = std::uint64_t{1} << 30; ///< unpacked; a graph of a million nodes has some 230 MB
    /// How many times its size a file may unpack to, once there are 64 MiB; 0: any. Graphs unpack to some 20 times.
    std::uint64_t ratio = 100;
};

/// Told while a file is read: how much of it was, from 0 to 1.
using part_read = std::function<void(double)>;

struct close_file {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using open_file = std::unique_ptr<std::FILE, close_file>;

/// `-` is standard input. Errors: it cannot be opened.
inline open_file open_to_read(const std::string& path) {
    open_file file(path == "-" ? ::fdopen(::dup(STDIN_FILENO), "rb") : std::fopen(path.c_str(), "rb"));
    if (!file) throw error({}, {}, std::string("cannot be opened: ") + std::strerror(errno));
    return file;
}

/// The bytes of a file.
class file_source : public std::streambuf {
public:
    /// Errors: when it is read, it is larger than `limit`.
    explicit file_source(open_file file, size_limit limit = {}, part_read progress = {})
        : file_(std::move(file)), limit_(limit), progress_(std::move(progress)) {
        struct stat found = {};
        if (progress_ && ::fstat(::fileno(file_.get()), &found) == 0 && S_ISREG(found.st_mode))
            size_ = static_cast<std::uint64_t>(found.st_size);
    }

protected:
    int_type underflow() override {
        const std::size_t count = read(buffer_.data(), buffer_.size());
        if (count == 0) return traits_type::eof();
        check_size(count);
        setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
        return traits_type::to_int_type(*gptr());
    }

    /// Up to `size` bytes; 0 only at the end. Errors: the file cannot be read, a directory for one.
    virtual std::size_t read(char* to, std::size_t size) { return read_raw(to, size); }

    std::size_t read_raw(char* to, std::size_t size) {
        const std::size_t count = std::fread(to, 1, size, file_.get());
        if (count == 0 && std::ferror(file_.get()))
            throw error({}, {}, std::string("cannot be read: ") + std::strerror(errno));
        packed_ += count;
        if (size_ > 0) progress_(std::min(1.0, static_cast<double>(packed_) / static_cast<double>(size_)));
        return count;
    }

private:
    /// Errors: with `count` more bytes the file is too large.
    void check_size(std::size_t count) {
        unpacked_ += count;
        constexpr std::string_view advice =
            "if that is right, read it with a larger limit (echo-plan: --max-bytes)";
        if (unpacked_ > limit_.bytes)
            throw error({}, {}, "has more than " + std::to_string(limit_.bytes) + " bytes, unpacked", advice);
        if (limit_.ratio && unpacked_ > std::uint64_t{1} << 26 && unpacked_ / limit_.ratio > packed_)
            throw error({}, {}, "unpacks to more than " + std::to_string(limit_.ratio) + " times its size",
                        advice);
    }

    open_file file_;
    size_limit limit_;
    part_read progress_;
    std::uint64_t size_ = 0;                  ///< as it lies on the disk; 0: not known, or nobody asks
    std::uint64_t packed_ = 0, unpacked_ = 0; ///< read so far
    std::array<char, 1 << 16> buffer_;
};

/// The bytes of a gzip file, of several members too.
class gzip_source : public file_source {
public:
    explicit gzip_source(open_file file, size_limit limit = {}, part_read progress = {})
        : file_source(std::move(file), limit, std::move(progress)) {
        if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
    }
    ~gzip_source() override { inflateEnd(&stream_); }
    gzip_source(const gzip_source&) = delete;
    gzip_source& operator=(const gzip_source&) = delete;

protected:
    /// Errors: not gzip, damaged, cut off.
    std::size_t read(char* to, std::size_t size) override {
        stream_.next_out = reinterpret_cast<Bytef*>(to);
        stream_.avail_out = static_cast<uInt>(size);
        while (stream_.avail_out == size) {
            if (stream_.avail_in == 0 && !refill()) break;
            if (at_member_end_ && inflateReset(&stream_) != Z_OK) broken("cannot be restarted");
            at_member_end_ = false;
            const int status = inflate(&stream_, Z_NO_FLUSH);
            if (status == Z_STREAM_END)
                at_member_end_ = true;
            else if (status != Z_OK && status != Z_BUF_ERROR)
                broken(stream_.msg ? stream_.msg : "damaged");
        }
        return size - stream_.avail_out;
    }

private:
    bool refill() {
        const std::size_t count = read_raw(input_.data(), input_.size());
        if (count == 0 && !at_member_end_) broken("cut off before its end");
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(count);
        return count != 0;
    }
    [[noreturn]] static void broken(const std::string& how) {
        throw error({}, {}, "not a sound gzip file: " + how, "compress it again, or drop .gz from its name");
    }

    z_stream stream_{};
    bool at_member_end_ = false; ///< an empty file is cut off as well
    std::array<char, 1 << 16> input_;
};

/// By its name.
inline bool is_compressed(std::string_view path) { return path.ends_with(".gz"); }

/// The bytes of a file, unpacked if its name ends in .gz; of standard input for `-`, unpacked if they are compressed.
/// Errors: it cannot be read; it is compressed, and its name does not say so.
inline std::unique_ptr<std::streambuf> open_source(const std::string& path, size_limit limit = {},
                                                   part_read progress = {}) {
    open_file file = open_to_read(path);
    const int first = std::getc(file.get());
    std::ungetc(first, file.get());
    constexpr int first_of_gzip = 0x1f; // no text begins so, and no model
    if (is_compressed(path) || (path == "-" && first == first_of_gzip))
        return std::make_unique<gzip_source>(std::move(file), limit, std::move(progress));
    if (first == first_of_gzip)
        throw error({}, {}, "is compressed, but its name does not end in .gz", "add .gz to its name");
    return std::make_unique<file_source>(std::move(file), limit, std::move(progress));
}

} // namespace echo::format
